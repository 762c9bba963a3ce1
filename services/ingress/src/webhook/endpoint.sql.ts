/** The statements on the `webhook_endpoint` table, one for each question. */
import type { Queryable } from "@iterate-platform/service/postgres";
import type { WebhookEndpoint } from "../project/contract.js";

interface EndpointRow {
  id: string;
  project_id: string;
  provider: "github";
  name: string;
  secret_path: string;
  created_at: Date;
}

const columns = "id, project_id, provider, name, secret_path, created_at";
const endpointOf = (row: EndpointRow): WebhookEndpoint => ({
  id: row.id,
  projectId: row.project_id,
  provider: row.provider,
  name: row.name,
  secretPath: row.secret_path,
  createdAt: row.created_at,
});

/** Answers null when the project has an endpoint of this provider and name. */
export async function insertEndpoint(
  pool: Queryable,
  endpoint: Omit<WebhookEndpoint, "createdAt">,
): Promise<WebhookEndpoint | null> {
  const { rows } = await pool.query<EndpointRow>(
    `insert into webhook_endpoint (id, project_id, provider, name, secret_path) values ($1, $2, $3, $4, $5)
      on conflict (project_id, provider, name) do nothing returning ${columns}`,
    [endpoint.id, endpoint.projectId, endpoint.provider, endpoint.name, endpoint.secretPath],
  );
  return rows[0] === undefined ? null : endpointOf(rows[0]);
}

export async function findEndpoint(pool: Queryable, id: string): Promise<WebhookEndpoint | null> {
  const { rows } = await pool.query<EndpointRow>(`select ${columns} from webhook_endpoint where id = $1`, [id]);
  return rows[0] === undefined ? null : endpointOf(rows[0]);
}

export async function endpointsOfProject(pool: Queryable, projectId: string): Promise<WebhookEndpoint[]> {
  const { rows } = await pool.query<EndpointRow>(
    `select ${columns} from webhook_endpoint where project_id = $1 order by provider, name`,
    [projectId],
  );
  return rows.map(endpointOf);
}
