/** The statements on projects that are imported. Each step is taken from the step before it alone, so two processes never take both ways. */
import type { Queryable } from "@iterate-platform/service/postgres";
import type { Project } from "./contract.js";

export type ImportStep = "staging" | "opening" | "cleaning" | "removing";

export interface ProjectImport {
  readonly project: Project;
  readonly importId: string;
  readonly step: ImportStep;
}

interface Row {
  readonly id: string;
  readonly slug: string;
  readonly created_at: Date;
  readonly import_id: string;
  readonly import_step: ImportStep;
}

const columns = "id, slug, created_at, import_id, import_step";
const importOf = ({ id, slug, created_at, import_id, import_step }: Row): ProjectImport => ({
  project: { id, slug, createdAt: created_at },
  importId: import_id,
  step: import_step,
});

/** Makes the row of a project that is imported. Answers null when the id or the slug is taken. */
export async function insertImported(
  pool: Queryable,
  project: { readonly id: string; readonly slug: string; readonly principal: string },
  importId: string,
): Promise<ProjectImport | null> {
  const { rows } = await pool.query<Row>(
    `insert into project (id, slug, created_by, announced_at, due_at, is_open, import_id, import_step, import_at)
      values ($1, $2, $3, now(), null, false, $4, 'staging', now()) on conflict do nothing returning ${columns}`,
    [project.id, project.slug, project.principal, importId],
  );
  return rows[0] === undefined ? null : importOf(rows[0]);
}

/** Begins to replace a project. Answers null when it is imported already, or not there. */
export async function beginReplacing(pool: Queryable, id: string, importId: string): Promise<ProjectImport | null> {
  const { rows } = await pool.query<Row>(
    `update project set import_id = $2, import_step = 'staging', import_at = now()
      where id = $1 and import_id is null and is_open returning ${columns}`,
    [id, importId],
  );
  return rows[0] === undefined ? null : importOf(rows[0]);
}

/** `open` or `importing`; null when there is no such project. */
export async function standingOf(pool: Queryable, id: string): Promise<"open" | "importing" | null> {
  const { rows } = await pool.query<{ importing: boolean }>(
    `select import_id is not null as importing from project where id = $1`,
    [id],
  );
  return rows[0] === undefined ? null : rows[0].importing ? "importing" : "open";
}

/** Says that the import is alive. False when somebody took it over. */
export async function keepAlive(pool: Queryable, importId: string, step: ImportStep): Promise<boolean> {
  const { rowCount } = await pool.query("update project set import_at = now() where import_id = $1 and import_step = $2", [
    importId,
    step,
  ]);
  return rowCount === 1;
}

/** Goes from one step to the next. False when it is not at `from` any more. */
export async function takeStep(pool: Queryable, importId: string, from: ImportStep, to: ImportStep): Promise<boolean> {
  const { rowCount } = await pool.query(
    `update project set import_step = $3, import_at = now(), is_open = is_open or $3 = 'cleaning' where import_id = $1 and import_step = $2`,
    [importId, from, to],
  );
  return rowCount === 1;
}

/** The import is over: its project is there, or was never made. */
export async function endImport(pool: Queryable, importId: string): Promise<void> {
  await pool.query("delete from project where import_id = $1 and not is_open", [importId]);
  await pool.query("update project set import_id = null, import_step = null, import_at = null where import_id = $1", [importId]);
}

/** Takes over up to `limit` imports that have been silent for `silentMs`. */
export async function claimSilent(pool: Queryable, limit: number, silentMs: number): Promise<ProjectImport[]> {
  const { rows } = await pool.query<Row>(
    `update project set import_at = now(), import_step = case import_step when 'staging' then 'removing' else import_step end
      where id in (
        select id from project where import_id is not null and import_at < now() - $2 * interval '1 millisecond'
        order by import_at limit $1 for update skip locked
      ) returning ${columns}`,
    [limit, silentMs],
  );
  return rows.map(importOf);
}
