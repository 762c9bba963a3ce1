/** The statements on the `project` table, one for each question. */
import type { Queryable } from "@iterate-platform/service/postgres";
import type { CreateProject, OwedProject, Project, ProjectTemplate } from "./contract.js";

interface ProjectRow {
  id: string;
  slug: string;
  created_at: Date;
}

const columns = "id, slug, created_at";
const projectOf = (row: ProjectRow): Project => ({ id: row.id, slug: row.slug, createdAt: row.created_at });

/** Answers null when the slug is taken. */
export async function insertProject(pool: Queryable, id: string, project: CreateProject): Promise<Project | null> {
  const { rows } = await pool.query<ProjectRow>(
    `insert into project (id, slug, created_by, template) values ($1, $2, $3, $4) on conflict (slug) do nothing returning ${columns}`,
    [id, project.slug, project.principal, project.template],
  );
  return rows[0] === undefined ? null : projectOf(rows[0]);
}

export async function findProject(pool: Queryable, idOrSlug: string): Promise<Project | null> {
  const column = idOrSlug.startsWith("prj_") ? "id" : "slug";
  const { rows } = await pool.query<ProjectRow>(`select ${columns} from project where ${column} = $1 and is_open`, [idOrSlug]);
  return rows[0] === undefined ? null : projectOf(rows[0]);
}

/** Projects by slug after `afterSlug`. */
export async function pageOfProjects(pool: Queryable, afterSlug: string, limit: number): Promise<Project[]> {
  const { rows } = await pool.query<ProjectRow>(
    `select ${columns} from project where slug > $1 and is_open order by slug limit $2`,
    [afterSlug, limit],
  );
  return rows.map(projectOf);
}

/** Takes up to `limit` projects whose facts are owed and due, and puts each off by a minute so that no other pod takes it meanwhile. */
export async function claimOwedProjects(pool: Queryable, limit: number): Promise<OwedProject[]> {
  const { rows } = await pool.query<{ id: string; slug: string; template: ProjectTemplate | null; attempts: number }>(
    `update project set due_at = now() + interval '1 minute', attempts = attempts + 1
      where id in (select id from project where announced_at is null and due_at <= now() order by due_at limit $1 for update skip locked)
      returning id, slug, template, attempts`,
    [limit],
  );
  return rows;
}

export async function claimOwedProject(pool: Queryable, id: string): Promise<OwedProject | null> {
  const { rows } = await pool.query<OwedProject>(
    `update project set due_at = now() + interval '1 minute', attempts = attempts + 1
      where id = $1 and announced_at is null and due_at <= now() returning id, slug, template, attempts`,
    [id],
  );
  return rows[0] ?? null;
}

export async function markAnnounced(pool: Queryable, id: string): Promise<void> {
  await pool.query("update project set announced_at = now(), due_at = null where id = $1", [id]);
}

export async function putOff(pool: Queryable, id: string, delayMs: number): Promise<void> {
  await pool.query("update project set due_at = now() + $2 * interval '1 millisecond' where id = $1 and announced_at is null", [
    id,
    delayMs,
  ]);
}

/** Seconds since the oldest owed project was made; 0 when none is owed. */
export async function oldestOwedSeconds(pool: Queryable): Promise<number> {
  const { rows } = await pool.query<{ age: number | null }>(
    "select extract(epoch from now() - min(created_at))::float8 as age from project where announced_at is null",
  );
  return rows[0]?.age ?? 0;
}
