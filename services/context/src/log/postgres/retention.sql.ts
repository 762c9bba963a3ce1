/** The statements that give up the past of a log, each about one context or a bounded number of them. */
import type { Statement } from "./sql-session.js";

/**
 * Makes up to $1 contexts due whose setting is newer than the one noticed. What they gave up changes the same state: that alone is
 * nothing to look at, else a busy context with an age would truncate in every round.
 */
export const noticeRetention: Statement = {
  name: "notice_retention",
  text: `
    insert into retention as held (context_id, noticed)
    select s.context_id, max((s.state::json ->> 'configuredAtOffset')::bigint) from core_state s
    left join retention r on r.context_id = s.context_id
    where s.concern = 'retention'
      and (r.context_id is null or (r.noticed < s.as_of and r.noticed < (s.state::json ->> 'configuredAtOffset')::bigint))
    group by s.context_id order by s.context_id limit $1
    on conflict (context_id) do update set noticed = excluded.noticed, due_at = least(held.due_at, now())
    where held.noticed < excluded.noticed`,
};

/** `[context_id]` of up to $1 contexts that are due, claimed for $2 milliseconds. */
export const claimRetention: Statement = {
  name: "claim_retention",
  text: `
    update retention set claimed_until = now() + $2::float8 * interval '1 millisecond'
    where context_id in (
      select context_id from retention where due_at <= now() and claimed_until <= now() order by due_at limit $1 for update skip locked
    )
    returning context_id`,
};

/** Context $1 is due again in $2 milliseconds. */
export const releaseRetention: Statement = {
  name: "release_retention",
  text: `update retention set claimed_until = '-infinity', due_at = now() + $2::float8 * interval '1 millisecond' where context_id = $1`,
};

/**
 * `[offset]`: of context $1 the lowest in $2 to $3 whose event is younger than $4 milliseconds, else $3 + 1. By halves, because times
 * rise with offsets and have no index.
 */
export const firstYounger: Statement = {
  name: "first_younger",
  text: `
    with recursive half (low, high) as (
      select $2::bigint, $3::bigint + 1
      union all
      select
        case when e.created_at < now() - $4::float8 * interval '1 millisecond' then e."offset" + 1 else h.low end,
        case when e.created_at < now() - $4::float8 * interval '1 millisecond' then h.high else (h.low + h.high) / 2 end
      from half h
      left join lateral (
        select "offset", created_at from event
        where context_id = $1 and "offset" >= (h.low + h.high) / 2 and "offset" < h.high order by "offset" limit 1
      ) e on true
      where h.low < h.high
    )
    select low from half where low >= high limit 1`,
};

/** `[offset, age in milliseconds]` of the events $2 of context $1. */
export const eventAges: Statement = {
  name: "event_ages",
  text: `
    select "offset", (extract(epoch from now() - created_at) * 1000)::float8 from event
    where context_id = $1 and "offset" = any($2::bigint[])`,
};

/** The first offset of context $1 rises to $2. */
export const beginTruncation: Statement = {
  name: "begin_truncation",
  text: `
    with begun as (
      insert into retention as held (context_id, first_offset) values ($1, $2)
      on conflict (context_id) do update set first_offset = excluded.first_offset where held.first_offset < excluded.first_offset
      returning context_id, first_offset
    )
    insert into truncation (context_id, first_offset) select context_id, first_offset from begun on conflict do nothing`,
};

/**
 * Goes through up to $2 more rows of context $1 below its first offset: what keeps a key or an append id loses its bodies, control
 * events stay, the rest goes. Of the facts of earlier truncations the newest is enough, and so it is of the firings of one schedule, which
 * would otherwise be kept for ever, one for each tick. Answers `[true]` when rows may be left.
 */
export const emptyEvents: Statement = {
  name: "empty_events",
  text: `
    with mark as materialized (
      select first_offset, emptied_below from retention where context_id = $1
    ), range as materialized (
      select max("offset") as through, count(*) as rows from (
        select "offset" from event
        where context_id = $1 and "offset" >= (select emptied_below from mark) and "offset" < (select first_offset from mark)
        order by "offset" limit $2
      ) e
    ), superseded as materialized (
      select coalesce((select type from event_type where name = 'events.iterate.com/itx/log-truncated'), 0) as type
    ), fired as materialized (
      select "offset" from (
        select "offset", row_number() over (
          partition by payload::json ->> 'key', payload::json ->> 'scheduledAtOffset' order by "offset" desc
        ) as newest
        from event
        where context_id = $1 and "offset" >= (select emptied_below from mark) and "offset" <= (select through from range)
          and type = (select type from event_type where name = 'events.iterate.com/itx/schedule-fired') and format_version > 0
      ) f where newest > 1
    ), gone as (
      delete from event
      where context_id = $1 and "offset" >= (select emptied_below from mark) and "offset" <= (select through from range)
        and (not is_control or type = (select type from superseded) or "offset" in (select "offset" from fired)) and idempotency_key is null and append_id is null
    ), kept as (
      update event set format_version = 0, is_control = false, payload = null, metadata = null, traceparent = null
      where context_id = $1 and "offset" >= (select emptied_below from mark) and "offset" <= (select through from range)
        and (not is_control or type = (select type from superseded) or "offset" in (select "offset" from fired)) and (idempotency_key is not null or append_id is not null)
        and format_version > 0
    )
    update retention set emptied_below = greatest(emptied_below,
      case when (select rows from range) < $2 then (select first_offset from mark) else (select through from range) + 1 end)
    where context_id = $1
    returning emptied_below < first_offset`,
};

/**
 * Removes up to $2 rows that are left of keys, and as many commits, of context $1, below what was its first offset $3 milliseconds
 * ago. Answers `[true]` when some may be left. The last commit is never among them: it is above every first offset.
 */
export const purgeKeys: Statement = {
  name: "purge_keys",
  text: `
    with cut as materialized (
      select greatest(
        (select max(first_offset) from truncation where context_id = $1 and at <= now() - $3::float8 * interval '1 millisecond'),
        (select purged_below from retention where context_id = $1)) as below
    ), keys as (
      delete from event where context_id = $1 and "offset" in (
        select "offset" from event
        where context_id = $1 and "offset" >= (select purged_below from retention where context_id = $1)
          and "offset" < (select below from cut) and format_version = 0
        order by "offset" limit $2
      ) returning 1
    ), commits as (
      delete from commit where context_id = $1 and commit_no in (
        select commit_no from (
          select commit_no, last_offset from commit where context_id = $1 order by commit_no limit $2
        ) c where last_offset < (select below from cut)
      ) returning 1
    ), left_over as materialized (
      select (select count(*) from keys) >= $2 or (select count(*) from commits) >= $2 as is_likely
    ), ended as (
      delete from truncation where context_id = $1 and first_offset <= (select below from cut) and not (select is_likely from left_over)
    ), blocks as (
      delete from type_block where context_id = $1 and block < (select below from cut) / 1024 and not (select is_likely from left_over)
    ), marked as (
      update retention set purged_below = greatest(purged_below, (select below from cut))
      where context_id = $1 and not (select is_likely from left_over)
    )
    select is_likely from left_over`,
};

/**
 * Takes floors in: owners $1, paths $2, names $3, configured at $4, resumed at $5, floors $6. Of contexts that are there; of a name that
 * is there twice the furthest.
 */
export const reportFloors: Statement = {
  name: "report_floors",
  text: `
    insert into subscription_floor as held (context_id, name, configured_at, resumed_at, floor_offset)
    select distinct on (c.context_id, f.name) c.context_id, f.name, f.configured_at, f.resumed_at, f.floor_offset
    from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
      f (owner, path, name, configured_at, resumed_at, floor_offset)
    cross join lateral (select context_id from context where owner = f.owner and path = f.path limit 1) c
    order by c.context_id, f.name, f.configured_at desc, f.resumed_at desc, f.floor_offset desc
    on conflict (context_id, name) do update set configured_at = excluded.configured_at, resumed_at = excluded.resumed_at,
      floor_offset = excluded.floor_offset
    where (excluded.configured_at, excluded.resumed_at, excluded.floor_offset) > (held.configured_at, held.resumed_at, held.floor_offset)`,
};

/** `[name, configured_at, resumed_at, floor_offset]` of context $1. */
export type FloorRow = readonly [name: string, configuredAt: string, resumedAt: string, floor: string];

export const floorsOf: Statement = {
  name: "floors_of",
  text: `select name, configured_at, resumed_at, floor_offset from subscription_floor where context_id = $1`,
};

/** Forgets the floors of context $1 whose names are not among $2. */
export const keepFloors: Statement = {
  name: "keep_floors",
  text: `delete from subscription_floor where context_id = $1 and not name = any($2::text[])`,
};
