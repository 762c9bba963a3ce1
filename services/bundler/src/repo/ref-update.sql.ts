/** Statements on the journal of ref updates, which is also the outbox of their facts. */
import type { Queryable } from "@iterate-platform/service/postgres";
import type { RefUpdate } from "./contract.js";

export interface NewRefUpdate extends RefUpdate {
  readonly seq: number;
  readonly pushId: string;
  readonly pusher: string | undefined;
  /** JSON text; null when nothing is told. */
  readonly fact: string | null;
  readonly traceparent: string | undefined;
}

/** An update without a fact is settled from the start. */
export async function addRefUpdate(db: Queryable, repoId: string, update: NewRefUpdate): Promise<void> {
  await db.query(
    `insert into ref_update (repo_id, seq, push_id, name, old_oid, new_oid, pusher, fact, traceparent, settled_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, case when $8::text is null then now() end)`,
    [
      repoId,
      update.seq,
      update.pushId,
      update.name,
      update.old,
      update.new,
      update.pusher ?? null,
      update.fact,
      update.traceparent ?? null,
    ],
  );
}

export async function hasPush(db: Queryable, repoId: string, pushId: string): Promise<boolean> {
  const { rows } = await db.query(`select 1 from ref_update where repo_id = $1 and push_id = $2 limit 1`, [repoId, pushId]);
  return rows.length > 0;
}

export interface ClaimedFact {
  readonly repoId: string;
  readonly owner: string;
  readonly path: string;
  readonly seq: number;
  readonly fact: string;
  readonly traceparent: string | null;
  /** This attempt's number, from 1. */
  readonly attempt: number;
}

/**
 * Claims the next fact of up to `limit` repositories whose time has come: the claim is the row's own due time, set `claimS` seconds
 * ahead, so a sender that dies leaves nothing behind. Only the lowest unsettled seq of a repository is ever claimed.
 */
export async function claimFacts(db: Queryable, limit: number, claimS: number): Promise<ClaimedFact[]> {
  const { rows } = await db.query<{
    repo_id: string;
    owner: string;
    path: string;
    seq: string;
    fact: string;
    traceparent: string | null;
    attempts: number;
  }>(
    `with head as (
       select distinct on (repo_id) repo_id, seq from ref_update where settled_at is null order by repo_id, seq
     ), due as (
       select u.repo_id, u.seq from ref_update u join head using (repo_id, seq)
       where u.settled_at is null and u.due_at <= now()
       order by u.due_at limit $1 for update of u skip locked
     )
     update ref_update u set attempts = u.attempts + 1, due_at = now() + make_interval(secs => $2)
     from due, repo
     where u.repo_id = due.repo_id and u.seq = due.seq and repo.repo_id = u.repo_id
     returning u.repo_id, repo.owner, repo.path, u.seq, u.fact, u.traceparent, u.attempts`,
    [limit, claimS],
  );
  return rows.map((row) => ({
    repoId: row.repo_id,
    owner: row.owner,
    path: row.path,
    seq: Number(row.seq),
    fact: row.fact,
    traceparent: row.traceparent,
    attempt: row.attempts,
  }));
}

export async function settleFact(db: Queryable, repoId: string, seq: number, failure: string | null): Promise<void> {
  await db.query(`update ref_update set settled_at = now(), failure = $3 where repo_id = $1 and seq = $2`, [repoId, seq, failure]);
}

export async function deferFact(db: Queryable, repoId: string, seq: number, delayS: number): Promise<void> {
  await db.query(`update ref_update set due_at = now() + make_interval(secs => $3) where repo_id = $1 and seq = $2`, [
    repoId,
    seq,
    delayS,
  ]);
}

export interface OutboxState {
  readonly unsettled: number;
  /** Age of the oldest unsettled update, seconds; 0 when there is none. */
  readonly oldestS: number;
  /** Seconds until the next attempt is due; undefined when nothing waits. */
  readonly nextDueS: number | undefined;
}

export async function outboxState(db: Queryable): Promise<OutboxState> {
  const { rows } = await db.query<{ unsettled: string; oldest_s: string | null; next_due_s: string | null }>(
    `with head as (
       select distinct on (repo_id) repo_id, seq, due_at from ref_update where settled_at is null order by repo_id, seq
     )
     select (select count(*) from ref_update where settled_at is null) as unsettled,
            (select extract(epoch from now() - min(at)) from ref_update where settled_at is null) as oldest_s,
            (select extract(epoch from min(due_at) - now()) from head) as next_due_s`,
  );
  const { unsettled, oldest_s, next_due_s } = rows[0]!;
  return {
    unsettled: Number(unsettled),
    oldestS: Number(oldest_s ?? 0),
    nextDueS: next_due_s === null ? undefined : Number(next_due_s),
  };
}
