/** The statements of due rows. None waits for a lock of another: claims skip what is locked, the others are about one row. */
import type { Statement } from "./sql-session.js";

const epoch = "timestamptz 'epoch'";
const ms = (column: string): string => `floor(extract(epoch from ${column}) * 1000)::bigint`;

/**
 * `[context_id, key, scheduled_at, due_ms, token, now_ms, null]` of up to $1 rows that are due, claimed for $2 milliseconds, and one row
 * `[null, …, now_ms, next_ms]`: the time, and until the next row is due within $3 milliseconds or null.
 */
export type ClaimRow = readonly [
  contextId: string | null,
  key: string | null,
  scheduledAt: string | null,
  dueMs: string | null,
  token: string | null,
  nowMs: string,
  nextMs: number | null,
];

export const claimDue: Statement = {
  name: "claim_due",
  text: `
    with taken as materialized (
      select context_id, key from schedule_due
      where due_at <= now() and claimed_until <= now() order by due_at limit $1 for update skip locked
    ), claimed as (
      update schedule_due d set claimed_until = now() + $2::float8 * interval '1 millisecond'
      from taken t where d.context_id = t.context_id and d.key = t.key
      returning d.context_id, d.key, d.scheduled_at, ${ms("d.due_at")} as due_ms, (extract(epoch from d.claimed_until) * 1000000)::bigint as token
    )
    select context_id, key, scheduled_at, due_ms, token, ${ms("now()")}, null::float8 from claimed
    union all
    select null, null, null, null, null, ${ms("now()")}, (
      select (extract(epoch from due_at - now()) * 1000)::float8 from schedule_due
      where due_at > now() and due_at <= now() + $3::float8 * interval '1 millisecond' order by due_at limit 1
    )`,
};

/** The row of context $1 and key $2 that is claimed by token $3 is due at $4 milliseconds since 1970; held when that is −1. */
export const settleDue: Statement = {
  name: "settle_due",
  text: `
    update schedule_due set claimed_until = '-infinity',
      due_at = case when $4::bigint >= 0 then ${epoch} + $4 * interval '1 millisecond' else 'infinity' end
    where context_id = $1 and key = $2 and claimed_until = ${epoch} + $3::bigint * interval '1 microsecond'`,
};

/** The row of context $1 and key $2 that is claimed by token $3 goes. */
export const removeDue: Statement = {
  name: "remove_due",
  text: `delete from schedule_due where context_id = $1 and key = $2 and claimed_until = ${epoch} + $3::bigint * interval '1 microsecond'`,
};

/** `[context_id, offset, created_at_us, format, payload, source]` of the events at offsets $2 of contexts $1. */
export type DefinitionRow = readonly [
  contextId: string,
  offset: string,
  createdAtUs: string,
  formatVersion: number,
  payload: string | null,
  source: string,
];

export const definitions: Statement = {
  name: "schedule_definitions",
  text: `
    select p.context_id, p."offset", e.* from unnest($1::bigint[], $2::bigint[]) p(context_id, "offset")
    cross join lateral (
      select (extract(epoch from created_at) * 1000000)::bigint, format_version, payload, source from event
      where context_id = p.context_id and "offset" = p."offset" limit 1
    ) e`,
};

/**
 * `[context_id, is_lacking]` of the next $2 contexts after $1 whose core rows of version $3 hold schedules: whether a schedule in force
 * has no due row, or one that is held.
 */
export type LackingRow = readonly [contextId: string, isLacking: boolean];

export const lackingDue: Statement = {
  name: "lacking_due",
  text: `
    select s.context_id, exists (
      select from json_each(s.state::json) r
      left join schedule_due d on d.context_id = s.context_id and d.key = r.key and d.scheduled_at = (r.value ->> 'scheduledAtOffset')::bigint
      where r.value ->> 'failedAtOffset' is null and (d.key is null or d.due_at = 'infinity')
    )
    from (
      select context_id, state from core_state
      where concern = 'schedules' and reducer_version = $3 and context_id > $1 order by context_id limit $2
    ) s
    order by s.context_id`,
};

/** Adds rows of contexts $1, keys $2, set at $3, due at $4 milliseconds since 1970 or held when −1. `[1]` for each that was needed. */
export const restoreDue: Statement = {
  name: "restore_due",
  text: `
    insert into schedule_due as held (context_id, key, scheduled_at, due_at)
    select r.context_id, r.key, r.scheduled_at, case when r.at_ms >= 0 then ${epoch} + r.at_ms * interval '1 millisecond' else 'infinity' end
    from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) r(context_id, key, scheduled_at, at_ms)
    order by r.context_id, r.key
    on conflict (context_id, key) do update set scheduled_at = excluded.scheduled_at, due_at = excluded.due_at, claimed_until = '-infinity'
    where held.scheduled_at < excluded.scheduled_at
      or (held.scheduled_at = excluded.scheduled_at and held.due_at = 'infinity' and excluded.due_at < 'infinity')
    returning 1`,
};
