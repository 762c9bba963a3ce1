/** What the write side asks of the database about contexts, each for many contexts at once. */
import type { Statement } from "./sql-session.js";

const micros = (column: string): string => `(extract(epoch from ${column}) * 1000000)::bigint`;

const lastCommit = `lateral (
  select commit_no, last_offset, reserved_through, last_control, runner_epoch, generation
  from commit where context_id = c.context_id order by commit_no desc limit 1
) k`;

export type HeadColumns = readonly [
  commitNo: string,
  lastOffset: string,
  reservedThrough: string,
  lastControl: string,
  runnerEpoch: string,
  generation: number,
];

/**
 * A context that has a row, with its last commit or nulls. `controlThrough`: last offset of the commit `lastControl`, `null` when that
 * commit is gone. `coreRows`: JSON of [concern, as_of, state][].
 */
export type LoadedRow = readonly [
  ordinal: string,
  contextId: string,
  createdAtUs: string,
  ...last: HeadColumns | readonly [null, null, null, null, null, null],
  controlThrough: string | null,
  coreRows: string | null,
];

/** Contexts by owner $1 and path $2. $3 reducer version. */
export const loadHeads: Statement = {
  name: "load_heads",
  text: `select a.ordinal, c.context_id, c.created_at_us, k.*,
  (select o.last_offset from commit o where o.context_id = c.context_id and o.commit_no = k.last_control),
  (select json_agg(json_build_array(s.concern, s.as_of, s.state))::text from core_state s where s.context_id = c.context_id and s.reducer_version = $3)
from unnest($1::text[], $2::text[]) with ordinality a(owner, path, ordinal)
cross join lateral (select context_id, ${micros("created_at")} as created_at_us from context where owner = a.owner and path = a.path limit 1) c
left join ${lastCommit} on true`,
};

/** The same for contexts by id, $1; `ordinal` is 0. $2 reducer version. */
export type LoadedByIdRow = readonly [owner: string, path: string, ...LoadedRow];

export const loadHeadsById: Statement = {
  name: "load_heads_by_id",
  text: `select c.owner, c.path, 0, c.context_id, c.created_at_us, k.*,
  (select o.last_offset from commit o where o.context_id = c.context_id and o.commit_no = k.last_control),
  (select json_agg(json_build_array(s.concern, s.as_of, s.state))::text from core_state s where s.context_id = c.context_id and s.reducer_version = $2)
from unnest($1::bigint[]) a(context_id)
cross join lateral (select context_id, owner, path, ${micros("created_at")} as created_at_us from context where context_id = a.context_id limit 1) c
left join ${lastCommit} on true`,
};

/** `[context_id, last commit]` of each of $1. */
export type LastCommitRow = readonly [contextId: string, ...HeadColumns];

export const lastCommits: Statement = {
  name: "last_commits",
  text: `select c.context_id, k.* from unnest($1::bigint[]) c(context_id) cross join ${lastCommit}`,
};

/** `[context_id, offset, type, format, payload]`: control events of contexts $1 above $2 and through $3, at most $4 of each, in order. */
export type ControlRow = readonly [contextId: string, offset: string, type: string, formatVersion: number, payload: string | null];

export const controlEvents: Statement = {
  name: "control_events",
  text: `select c.context_id, e."offset", t.name, e.format_version, e.payload
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) c(context_id, after_offset, through)
cross join lateral (
  select "offset", type, format_version, payload from event
  where context_id = c.context_id and is_control and "offset" > c.after_offset and "offset" <= c.through
  order by "offset" limit $4
) e
join event_type t on t.type = e.type
order by c.context_id, e."offset"`,
};

/** `[context_id, key, offset, created_at_us, digest, source]` of the keys $2 of contexts $1 that are taken. */
export type KeyRow = readonly [contextId: string, key: string, offset: string, createdAtUs: string, digest: Buffer, source: string];

export const takenKeys: Statement = {
  name: "taken_keys",
  text: `select k.context_id, k.idempotency_key, e.*
from unnest($1::bigint[], $2::text[]) k(context_id, idempotency_key)
cross join lateral (
  select "offset", ${micros("created_at")}, body_digest, source from event
  where context_id = k.context_id and idempotency_key = k.idempotency_key limit 1
) e`,
};

/** `[context_id, append_id, offset, created_at_us]` of the appends $2 of contexts $1 that are committed: where their first new event is. */
export type AppendRow = readonly [contextId: string, appendId: string, offset: string, createdAtUs: string];

export const committedAppends: Statement = {
  name: "committed_appends",
  text: `select a.context_id, a.append_id, e.*
from unnest($1::bigint[], $2::uuid[]) a(context_id, append_id)
cross join lateral (
  select "offset", ${micros("created_at")} from event where context_id = a.context_id and append_id = a.append_id limit 1
) e`,
};

/**
 * `[ordinal, offset, append_id, type, payload, metadata, idempotency_key, is_bare]`: of each context $1 at most $3 events from offset
 * $2 on; one without its bodies is bare.
 */
export type StoredBodyRow = readonly [
  ordinal: string,
  offset: string,
  appendId: string | null,
  type: string,
  payload: string | null,
  metadata: string | null,
  idempotencyKey: string | null,
  isBare: boolean,
];

export const storedBodies: Statement = {
  name: "stored_bodies",
  text: `select a.ordinal, e."offset", e.append_id, t.name, e.payload, e.metadata, e.idempotency_key, e.format_version = 0
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) with ordinality a(context_id, first, most, ordinal)
cross join lateral (
  select "offset", append_id, type, format_version, payload, metadata, idempotency_key from event
  where context_id = a.context_id and "offset" >= a.first order by "offset" limit a.most
) e
join event_type t on t.type = e.type
order by a.ordinal, e."offset"`,
};

/**
 * `[owner, path, context_id, created_at_us]` of the contexts ($1, $2) that got a row now, each in its partition $3. One that another
 * process makes at the same time is not answered: load it. Counter rows are taken in the order of partitions, so births wait for
 * each other in one direction; the number of a row that was not needed is not used again. None is made for an owner that is imported.
 */
export type BornRow = readonly [owner: string, path: string, contextId: string, createdAtUs: string];

export const makeContexts: Statement = {
  name: "make_contexts",
  text: `with wanted as (
  select owner, path, partition, row_number() over (partition by partition order by owner, path) as number
  from unnest($1::text[], $2::text[], $3::smallint[]) w(owner, path, partition)
  where not exists (select from import i where i.owner = w.owner)
), counted as (
  insert into partition_counter as held (partition, last_number)
  select partition, count(*) from wanted group by partition order by partition
  on conflict (partition) do update set last_number = held.last_number + excluded.last_number
  returning partition, last_number
), numbered as (
  select w.owner, w.path, w.partition::bigint << 40 | (n.last_number - (select count(*) from wanted o where o.partition = w.partition) + w.number) as context_id
  from wanted w join counted n on n.partition = w.partition
)
insert into context (context_id, owner, path) select context_id, owner, path from numbered order by context_id
on conflict (owner, path) do nothing
returning owner, path, context_id, ${micros("created_at")}`,
};

export const addTypes: Statement = {
  name: "add_types",
  text: `insert into event_type (name) select name from unnest($1::text[]) t(name) order by name on conflict (name) do nothing`,
};

/** `[name, type]` of those of $1 that have a number. */
export const typeNumbers: Statement = {
  name: "type_numbers",
  text: `select name, type from event_type where name = any($1::text[])`,
};

export const shardGeneration: Statement = { name: "shard_generation", text: `select generation from shard` };

/**
 * Takes the next commit number of context $1 in an open transaction, whatever it is: from here to the end of the transaction
 * nobody else can commit to the context. The row is completed by the claimed form of the commit statement. Answers the commit before
 * it (`LastCommitRow`), or nothing when another process was faster.
 */
export const claimNextCommit: Statement = {
  name: "claim_next_commit",
  text: `insert into commit (context_id, commit_no, first_offset, last_offset, reserved_through, last_control, runner_epoch, generation, writer, partition)
select context_id, commit_no + 1, last_offset + 1, last_offset, reserved_through, last_control, runner_epoch, generation, writer, partition
from commit where context_id = $1 order by commit_no desc limit 1
on conflict do nothing
returning context_id, commit_no - 1, last_offset, reserved_through, last_control, runner_epoch, generation`,
};
