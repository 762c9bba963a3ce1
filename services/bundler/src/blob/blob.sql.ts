/** Statements on blobs and their pieces. */
import type { Queryable } from "@iterate-platform/service/postgres";

/** Announces a blob, or keeps one that exists from being swept. Answers whether its content is there. */
export async function touchBlob(db: Queryable, digest: Buffer, size: number): Promise<boolean> {
  const { rows } = await db.query<{ is_complete: boolean }>(
    `insert into blob (digest, size) values ($1, $2)
     on conflict (digest) do update set touched_at = now()
     returning is_complete`,
    [digest, size],
  );
  return rows[0]!.is_complete;
}

/** Stores one piece, over a wrong one if there is one, and answers the hash of what is stored. */
export async function putChunk(db: Queryable, digest: Buffer, chunk: number, data: Uint8Array): Promise<Buffer> {
  const { rows } = await db.query<{ sum: Buffer }>(
    `insert into blob_chunk (digest, chunk, data) values ($1, $2, $3)
     on conflict (digest, chunk) do update set data = excluded.data
     returning sha256(data) as sum`,
    [digest, chunk, data],
  );
  return rows[0]!.sum;
}

export async function completeBlob(db: Queryable, digest: Buffer): Promise<void> {
  await db.query(`update blob set is_complete = true, touched_at = now() where digest = $1`, [digest]);
}

/** Makes a blob whose content is wrong count as absent, so that it is stored anew. */
export async function doubtBlob(db: Queryable, digest: Buffer): Promise<void> {
  await db.query(`update blob set is_complete = false, touched_at = now() where digest = $1`, [digest]);
}

/** Size of a blob whose content is there; undefined otherwise. */
export async function blobSize(db: Queryable, digest: Buffer): Promise<number | undefined> {
  const { rows } = await db.query<{ size: string }>(`select size from blob where digest = $1 and is_complete`, [digest]);
  return rows[0] === undefined ? undefined : Number(rows[0].size);
}

export async function getChunk(db: Queryable, digest: Buffer, chunk: number): Promise<Buffer | undefined> {
  const { rows } = await db.query<{ data: Buffer }>(`select data from blob_chunk where digest = $1 and chunk = $2`, [
    digest,
    chunk,
  ]);
  return rows[0]?.data;
}

/** Removes blobs that nothing names and nobody touched for `ageS` seconds; answers how many. */
export async function sweepBlobs(db: Queryable, ageS: number, limit: number): Promise<number> {
  const { rows } = await db.query<{ removed: string }>(
    `with gone as (
       delete from blob where digest in (
         select digest from blob
         where touched_at < now() - make_interval(secs => $1)
           and not exists (select from pack where pack.blob = digest)
           and not exists (select from build_module where build_module.blob = digest)
         limit $2
       ) returning digest
     ), pieces as (delete from blob_chunk where digest in (select digest from gone))
     select count(*) as removed from gone`,
    [ageS, limit],
  );
  return Number(rows[0]!.removed);
}
