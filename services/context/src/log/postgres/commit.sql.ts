/**
 * The one statement that commits a group. The fence is the insert of commit rows: whoever gets (context_id, commit_no) in owns that
 * commit, and events and core rows are written for those contexts alone. It inserts in the order of context_id, always: two
 * processes that meet on several contexts then wait for each other in one direction.
 *
 * A key that is taken keeps its context out of the commit and comes back as a row of its own; so does a generation of the shard
 * that is not the one the group was planned in, by leaving every context out.
 */
import type { Statement } from "./sql-session.js";

/** What a group brings: a part that is not there costs the plan nothing. */
export interface CommitShape {
  /** Some event has a key that nobody looked up. */
  readonly hasKeys: boolean;
  /** Some commit changes the core state. */
  readonly hasCore: boolean;
  /** Roots whose newest control commit must be the one named, for the commits that rest on them. */
  readonly guards: "none" | "one" | "many";
  /** Some commit changes when schedules are due. */
  readonly hasDue: boolean;
  /** The commit rows exist already, claimed by this transaction (see `claimNextCommit`). */
  readonly isClaimed: boolean;
}

/** Rows: `[context_id, at_us, null, …]` of a commit that landed, `[context_id, created_at_us, key, offset, digest, source]` of a taken key. */
export type CommitRow = readonly [
  contextId: string,
  atUs: string,
  key: string | null,
  offset: string | null,
  digest: Buffer | null,
  source: string | null,
];

const statements = new Map<string, Statement>();

export function commitStatement(shape: CommitShape): Statement {
  const guards = shape.guards === "none" ? "" : `_guard_${shape.guards}`;
  const due = shape.hasDue ? "_due" : "";
  const name = `commit${shape.hasKeys ? "_keys" : ""}${shape.hasCore ? "_core" : ""}${guards}${due}${shape.isClaimed ? "_claimed" : ""}`;
  let statement = statements.get(name);
  if (statement === undefined) {
    statement = { name, text: commitText(shape) };
    statements.set(name, statement);
  }
  return statement;
}

const micros = (column: string): string => `(extract(epoch from ${column}) * 1000000)::bigint`;

/** $1 generation, $2 writer, $3–$10 commits, $11–$22 events, then keys, then core rows, then guards, then due rows. */
function commitText({ hasKeys, hasCore, guards, hasDue, isClaimed }: CommitShape): string {
  const keysAt = 23;
  const coreAt = hasKeys ? keysAt + 2 : keysAt;
  const guardsAt = hasCore ? coreAt + 5 : coreAt;
  const isGuarded = guards !== "none";
  const dueAt = isGuarded ? guardsAt + 3 : guardsAt;
  const found = `found as materialized (
  select k.context_id, k.idempotency_key, e.*
  from unnest($${keysAt}::bigint[], $${keysAt + 1}::text[]) k(context_id, idempotency_key)
  cross join lateral (
    select e."offset", e.body_digest, e.created_at, e.source from event e
    where e.context_id = k.context_id and e.idempotency_key = k.idempotency_key limit 1
  ) e
), `;
  const wanted = `unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[]${isGuarded ? `, $${guardsAt}::bigint[]` : ""})
    w(context_id, commit_no, first_offset, last_offset, reserved_through, last_control, runner_epoch, traceparent${isGuarded ? ", root" : ""})
  where (select generation from shard) = $1${guardText(guards, guardsAt)}${hasKeys ? " and not exists (select from found f where f.context_id = w.context_id)" : ""}`;
  // A claim is of one context, named by value so that one partition is looked at.
  const fence = isClaimed
    ? `update commit c set first_offset = w.first_offset, last_offset = w.last_offset, reserved_through = w.reserved_through,
    last_control = w.last_control, runner_epoch = w.runner_epoch, generation = $1, writer = $2, traceparent = w.traceparent
  from ${wanted} and c.context_id = ($3::bigint[])[1] and c.commit_no = ($4::bigint[])[1]
  returning c.context_id, c.at`
    : `insert into commit (context_id, commit_no, first_offset, last_offset, reserved_through, last_control, runner_epoch, generation, writer, partition, traceparent)
  select w.context_id, w.commit_no, w.first_offset, w.last_offset, w.reserved_through, w.last_control, w.runner_epoch, $1, $2, w.context_id >> 40, w.traceparent
  from ${wanted}
  order by w.context_id
  on conflict do nothing
  returning context_id, at`;
  const core = `, cored as (
  insert into core_state as held (context_id, concern, reducer_version, as_of, state)
  select s.context_id, s.concern, $${coreAt}, s.as_of, s.state
  from unnest($${coreAt + 1}::bigint[], $${coreAt + 2}::text[], $${coreAt + 3}::bigint[], $${coreAt + 4}::text[]) s(context_id, concern, as_of, state)
  join fenced f on f.context_id = s.context_id
  on conflict (context_id, concern, reducer_version) do update set as_of = excluded.as_of, state = excluded.state
)`;
  return `with ${hasKeys ? found : ""}fenced as (
  ${fence}
), written as (
  insert into event (context_id, "offset", type, format_version, is_control, append_id, idempotency_key, body_digest, source, traceparent, payload, metadata)
  select e.* from unnest($11::bigint[], $12::bigint[], $13::integer[], $14::smallint[], $15::boolean[], $16::uuid[], $17::text[], $18::bytea[], $19::text[], $20::text[], $21::text[], $22::text[])
    e(context_id, "offset", type, format_version, is_control, append_id, idempotency_key, body_digest, source, traceparent, payload, metadata)
  join fenced f on f.context_id = e.context_id
)${hasCore ? core : ""}${hasDue ? dueText(dueAt) : ""}
select context_id, ${micros("at")}, null::text, null::bigint, null::bytea, null::text from fenced${
    hasKeys
      ? `\nunion all select context_id, ${micros("created_at")}, idempotency_key, "offset", body_digest, source from found`
      : ""
  }`;
}

/**
 * A row that is due after a delay is so at the first whole millisecond after it. Commits of one context follow each other, and those
 * who claim rows skip what is locked, so nobody waits here for anybody who waits for him.
 */
function dueText(at: number): string {
  const changed = `unnest($${at}::bigint[], $${at + 1}::text[], $${at + 2}::bigint[], $${at + 3}::bigint[], $${at + 4}::bigint[])
    d(context_id, key, scheduled_at, at_ms, after_ms)
  join fenced f on f.context_id = d.context_id`;
  return `, due as (
  insert into schedule_due as held (context_id, key, scheduled_at, due_at)
  select d.context_id, d.key, d.scheduled_at, case
    when d.at_ms >= 0 then timestamptz 'epoch' + d.at_ms * interval '1 millisecond'
    when d.after_ms >= 0 then now() + (d.after_ms + 1) * interval '1 millisecond'
    else 'infinity' end
  from ${changed} where d.scheduled_at > 0
  order by d.context_id, d.key
  on conflict (context_id, key) do update set scheduled_at = excluded.scheduled_at, due_at = excluded.due_at, claimed_until = '-infinity'
), undue as (
  delete from schedule_due g using ${changed}
  where d.scheduled_at = 0 and g.context_id = d.context_id and g.key = d.key
)`;
}

/** Keeps out the contexts whose root has moved; the roots are looked at once for the statement. */
function guardText(guards: CommitShape["guards"], at: number): string {
  if (guards === "none") return "";
  if (guards === "one")
    return ` and (w.root = 0 or ($${at + 2}::bigint[])[1] = (
    select k.last_control from commit k where k.context_id = ($${at + 1}::bigint[])[1] order by k.commit_no desc limit 1))`;
  return ` and w.root not in (
    select g.context_id from unnest($${at + 1}::bigint[], $${at + 2}::bigint[]) g(context_id, last_control)
    cross join lateral (select k.last_control from commit k where k.context_id = g.context_id order by k.commit_no desc limit 1) k
    where k.last_control <> g.last_control)`;
}
