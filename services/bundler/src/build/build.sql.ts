/** Statements on builds: what each bundle is, by its key and by its digest, and which blobs its modules are. */
import type { Queryable } from "@iterate-platform/service/postgres";
import type { ModuleKind } from "./contract.js";

export interface BuildRow {
  readonly key: string;
  readonly digest: string;
  /** JSON text. */
  readonly bundle: string;
}

export interface ModuleRow {
  readonly name: string;
  readonly kind: ModuleKind;
  /** Hex. */
  readonly blob: string;
}

export async function findBuild(db: Queryable, owner: string, key: string): Promise<BuildRow | undefined> {
  const { rows } = await db.query<BuildRow>(`select key, digest, bundle from build where owner = $1 and key = $2`, [owner, key]);
  return rows[0];
}

/** The newest build with the digest: builds of one digest hold the same modules. */
export async function findBuildByDigest(db: Queryable, owner: string, digest: string): Promise<BuildRow | undefined> {
  const { rows } = await db.query<BuildRow>(
    `select key, digest, bundle from build where owner = $1 and digest = $2 order by created_at desc limit 1`,
    [owner, digest],
  );
  return rows[0];
}

/** Keeps the first build of a key; another with the same key has the same bytes. */
export async function addBuild(db: Queryable, owner: string, build: BuildRow, modules: readonly ModuleRow[]): Promise<void> {
  await db.query(
    `with kept as (
       insert into build (owner, key, digest, bundle) values ($1, $2, $3, $4) on conflict do nothing returning owner, key
     )
     insert into build_module (owner, key, name, kind, blob)
     select kept.owner, kept.key, module.name, module.kind, decode(module.blob, 'hex')
     from kept, unnest($5::text[], $6::text[], $7::text[]) as module (name, kind, blob)`,
    [
      owner,
      build.key,
      build.digest,
      build.bundle,
      modules.map(({ name }) => name),
      modules.map(({ kind }) => kind),
      modules.map(({ blob }) => blob),
    ],
  );
}

export async function listModules(db: Queryable, owner: string, key: string): Promise<ModuleRow[]> {
  const { rows } = await db.query<ModuleRow>(
    `select name, kind, encode(blob, 'hex') as blob from build_module where owner = $1 and key = $2 order by name`,
    [owner, key],
  );
  return rows;
}

/** Forgets every build with the digest; the next Build makes it again. */
export async function removeBuilds(db: Queryable, owner: string, digest: string): Promise<void> {
  await db.query(`delete from build where owner = $1 and digest = $2`, [owner, digest]);
}
