/** Statements on repositories, their refs and their packs. */
import type { Queryable } from "@iterate-platform/service/postgres";
import type { Repo, RepoName } from "./contract.js";

export interface PackRow {
  readonly name: string;
  /** Hex. */
  readonly blob: string;
  readonly size: number;
}

export async function findRepo(db: Queryable, { owner, path }: RepoName): Promise<Repo | undefined> {
  const { rows } = await db.query<{ repo_id: string }>(`select repo_id from repo where owner = $1 and path = $2`, [owner, path]);
  return rows[0] === undefined ? undefined : { owner, path, id: rows[0].repo_id };
}

export async function makeRepo(db: Queryable, { owner, path }: RepoName): Promise<void> {
  await db.query(`insert into repo (owner, path) values ($1, $2) on conflict do nothing`, [owner, path]);
}

/** Makes every other writer of the repository wait for this transaction. */
export async function lockRepo(db: Queryable, repoId: string): Promise<{ nextSeq: number; packBytes: number }> {
  const { rows } = await db.query<{ next_seq: string; pack_bytes: string }>(
    `select next_seq, pack_bytes from repo where repo_id = $1 for update`,
    [repoId],
  );
  return { nextSeq: Number(rows[0]!.next_seq), packBytes: Number(rows[0]!.pack_bytes) };
}

export async function advanceRepo(db: Queryable, repoId: string, nextSeq: number, addedBytes: number): Promise<void> {
  await db.query(`update repo set next_seq = $2, pack_bytes = pack_bytes + $3 where repo_id = $1`, [repoId, nextSeq, addedBytes]);
}

export async function listRefs(db: Queryable, repoId: string): Promise<Map<string, string>> {
  const { rows } = await db.query<{ name: string; oid: string }>(`select name, oid from ref where repo_id = $1 order by name`, [
    repoId,
  ]);
  return new Map(rows.map(({ name, oid }) => [name, oid]));
}

export async function setRef(db: Queryable, repoId: string, name: string, oid: string): Promise<void> {
  await db.query(
    `insert into ref (repo_id, name, oid) values ($1, $2, $3) on conflict (repo_id, name) do update set oid = excluded.oid`,
    [repoId, name, oid],
  );
}

export async function removeRef(db: Queryable, repoId: string, name: string): Promise<void> {
  await db.query(`delete from ref where repo_id = $1 and name = $2`, [repoId, name]);
}

export async function listPacks(db: Queryable, repoId: string): Promise<PackRow[]> {
  const { rows } = await db.query<{ name: string; blob: string; size: string }>(
    `select name, encode(blob, 'hex') as blob, size from pack where repo_id = $1 order by created_at, name`,
    [repoId],
  );
  return rows.map(({ name, blob, size }) => ({ name, blob, size: Number(size) }));
}

/** Answers whether the pack is new to the repository. */
export async function addPack(db: Queryable, repoId: string, pack: PackRow & { objects: number }): Promise<boolean> {
  const { rowCount } = await db.query(
    `insert into pack (repo_id, name, blob, size, objects) values ($1, $2, decode($3, 'hex'), $4, $5) on conflict do nothing`,
    [repoId, pack.name, pack.blob, pack.size, pack.objects],
  );
  return rowCount === 1;
}

/** Drops packs whose objects another one holds, and counts the bytes that are left. */
export async function removePacks(db: Queryable, repoId: string, names: readonly string[]): Promise<void> {
  await db.query(`delete from pack where repo_id = $1 and name = any($2::text[])`, [repoId, names]);
  await db.query(
    `update repo set pack_bytes = (select coalesce(sum(size), 0) from pack where pack.repo_id = $1) where repo_id = $1`,
    [repoId],
  );
}
