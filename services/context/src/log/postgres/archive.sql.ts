/** The statements of exports and imports, each bounded. */
import type { Statement } from "./sql-session.js";

/** `[path]` of contexts of owner $1 after $2, at most $3. */
export const pathsOf: Statement = {
  name: "archive_paths",
  text: `select path from context where owner = $1 and path > $2 order by path limit $3`,
};

/**
 * `[offset, bytes]` of the events of context $1 after $2 and through $3, at most $4, of what is kept from $5 on and of control events
 * below it.
 */
export const archiveSizes: Statement = {
  name: "archive_sizes",
  text: `
    select "offset", coalesce(octet_length(payload), 0) + coalesce(octet_length(metadata), 0) from event
    where context_id = $1 and "offset" > $2 and "offset" <= $3 and format_version > 0 and ("offset" >= $5 or is_control)
    order by "offset" limit $4`,
};

export type ArchiveRow = readonly [
  offset: string,
  type: string,
  formatVersion: number,
  createdAtUs: string,
  appendId: string | null,
  idempotencyKey: string | null,
  source: string,
  traceparent: string | null,
  payload: string | null,
  metadata: string | null,
];

/** The events of context $1 after $2 and through $3, of those that are kept from $4 on and of control events below it. */
export const archiveEvents: Statement = {
  name: "archive_events",
  text: `
    select e."offset", t.name, e.format_version, (extract(epoch from e.created_at) * 1000000)::bigint, e.append_id, e.idempotency_key,
      e.source, e.traceparent, e.payload, e.metadata
    from event e join event_type t using (type)
    where e.context_id = $1 and e."offset" > $2 and e."offset" <= $3 and e.format_version > 0 and (e."offset" >= $4 or e.is_control)
    order by e."offset"`,
};

/** Begins import $1 of owner $2. `[id]` of the one that holds the name. */
export const beginImport: Statement = {
  name: "begin_import",
  text: `
    with made as (
      insert into import (id, owner) values ($1, $2) on conflict do nothing returning id
    )
    select id from made union all select id from import where owner = $2`,
};

/** A row when owner $1 has a context. */
export const hasContexts: Statement = {
  name: "has_contexts",
  text: `select 1 from context where owner = $1 limit 1`,
};

/**
 * One commit of an import $1, unless it was removed: `[]` then. The look at the import's row holds a removal back until this is written.
 * $2 generation, $3–$9 the commit, $10–$22 its events.
 */
export const stageCommit: Statement = {
  name: "stage_commit",
  text: `
    with live as materialized (
      select id from import where id = $1 and not is_removed for share
    ), committed as (
      insert into commit (context_id, commit_no, first_offset, last_offset, reserved_through, last_control, runner_epoch, generation, writer, partition)
      select $3, $4, $5, $6, $7, $8, 0, $2, 0, $9 from live
    ), written as (
      insert into event (context_id, "offset", type, format_version, is_control, append_id, idempotency_key, body_digest, created_at, source, traceparent, payload, metadata)
      select $3, e."offset", e.type, e.format_version, e.is_control, e.append_id, e.idempotency_key, e.body_digest,
        coalesce(timestamptz 'epoch' + nullif(e.created_at_us, 0) * interval '1 microsecond', now()), e.source, e.traceparent, e.payload, e.metadata
      from live, unnest($10::bigint[], $11::integer[], $12::smallint[], $13::boolean[], $14::uuid[], $15::text[], $16::bytea[], $17::bigint[],
          $18::text[], $19::text[], $20::text[], $21::text[])
        e("offset", type, format_version, is_control, append_id, idempotency_key, body_digest, created_at_us, source, traceparent, payload, metadata)
    )
    select 1 from live`,
};

/** Context $1 begins at offset $2; it is looked at for what it gives up once it is open. */
export const stageRetention: Statement = {
  name: "stage_retention",
  text: `
    insert into retention (context_id, first_offset, emptied_below, purged_below, due_at) values ($1, $2, $2, $2, 'infinity')
    on conflict (context_id) do nothing`,
};

/** Schedules $2 of context $1, set at $3, are due once it is open: whoever claims them finds out when they really are. */
export const stageDue: Statement = {
  name: "stage_due",
  text: `
    insert into schedule_due (context_id, key, scheduled_at, due_at) select $1, s.key, s.scheduled_at, 'infinity'
    from unnest($2::text[], $3::bigint[]) s(key, scheduled_at) on conflict do nothing`,
};

/** `[context_id]` of up to $2 contexts of owner $1. */
export const contextsOf: Statement = {
  name: "contexts_of",
  text: `select context_id from context where owner = $1 order by path limit $2`,
};

/**
 * `[context_id]` of up to $3 contexts that stand under the name of owner $1 and that import $2 replaces. Both are looked at in one
 * snapshot: once it is cleared, those under that name may be the import's own.
 */
export const standingContexts: Statement = {
  name: "standing_contexts",
  text: `
    select context_id from context
    where owner = $1 and exists (select from import where id = $2 and not is_cleared and not is_removed) order by path limit $3`,
};

/** `[context_id]` of those of $1 that have a commit of generation 0 as their last: the others are tried again. */
export const closeContexts: Statement = {
  name: "close_contexts",
  text: `
    with last as materialized (
      select c.context_id, coalesce(k.commit_no, 0) as commit_no, coalesce(k.last_offset, 0) as last_offset,
        coalesce(k.reserved_through, 0) as reserved_through, coalesce(k.last_control, 0) as last_control,
        coalesce(k.runner_epoch, 0) as runner_epoch, coalesce(k.generation, 1) as generation
      from unnest($1::bigint[]) c(context_id)
      left join lateral (
        select commit_no, last_offset, reserved_through, last_control, runner_epoch, generation
        from commit where context_id = c.context_id order by commit_no desc limit 1
      ) k on true
    ), closed as (
      insert into commit (context_id, commit_no, first_offset, last_offset, reserved_through, last_control, runner_epoch, generation, writer, partition)
      select context_id, commit_no + 1, last_offset + 1, last_offset, reserved_through, last_control, runner_epoch, 0, 0, context_id >> 40
      from last where generation > 0
      order by context_id
      on conflict do nothing
      returning context_id
    )
    select context_id from last where generation = 0 union all select context_id from closed`,
};

/** Nothing of the closed contexts $1 is read any more. */
export const shutContexts: Statement = {
  name: "shut_contexts",
  text: `
    insert into retention (context_id, first_offset, due_at) select context_id, 9007199254740991, 'infinity' from unnest($1::bigint[]) c(context_id)
    on conflict (context_id) do update set first_offset = excluded.first_offset, due_at = excluded.due_at`,
};

/** Contexts $1 belong to owner $2 from now on. */
export const renameContexts: Statement = {
  name: "rename_contexts",
  text: `update context set owner = $2 where context_id = any($1::bigint[])`,
};

/** `[context_id]` of up to $3 contexts of owner $1, which belong to owner $2 from now on and are looked at for what they give up. */
export const takeContexts: Statement = {
  name: "take_contexts",
  text: `
    with taken as (
      update context set owner = $2, is_told = true
      where context_id in (select context_id from context where owner = $1 order by path limit $3)
      returning context_id
    ), due as (
      update retention set due_at = now() where context_id in (select context_id from taken)
    ), scheduled as (
      update schedule_due set due_at = now() where context_id in (select context_id from taken)
    )
    select context_id from taken`,
};

/** Import $1 is over: contexts of its owner may be born. */
export const endImport: Statement = { name: "end_import", text: `delete from import where id = $1` };

/** `[is_cleared]` of import $1. */
export const findImport: Statement = {
  name: "find_import",
  text: `select is_cleared from import where id = $1 and not is_removed`,
};

/** Nothing else stands under the name of import $1's owner. */
export const clearImport: Statement = { name: "clear_import", text: `update import set is_cleared = true where id = $1` };

/** Nothing is written for import $1 from now on. */
export const giveUpImport: Statement = { name: "give_up_import", text: `update import set is_removed = true where id = $1` };

/** Removes up to $2 events of context $1. `[count]`. */
export const removeEvents: Statement = {
  name: "remove_events",
  text: `
    with gone as (
      delete from event where context_id = $1 and "offset" in (
        select "offset" from event where context_id = $1 order by "offset" limit $2
      ) returning 1
    ) select count(*)::int from gone`,
};

/** Removes up to $2 commits of context $1, but the one that closed it. `[count]`. */
export const removeCommits: Statement = {
  name: "remove_commits",
  text: `
    with gone as (
      delete from commit where context_id = $1 and commit_no in (
        select commit_no from commit where context_id = $1 and generation > 0 order by commit_no limit $2
      ) returning 1
    ) select count(*)::int from gone`,
};

/** Removes the rest of context $1; of a closed one the two rows stay that tell of it. */
export const removeContext: Statement = {
  name: "remove_context",
  text: `
    with state as (delete from core_state where context_id = $1),
      snapshots as (delete from core_snapshot where context_id = $1),
      blocks as (delete from type_block where context_id = $1),
      marks as (delete from type_block_mark where context_id = $1),
      floors as (delete from subscription_floor where context_id = $1),
      kept_values as (delete from kv where context_id = $1),
      kept_totals as (delete from kv_total where context_id = $1),
      truncations as (delete from truncation where context_id = $1),
      due_rows as (delete from schedule_due where context_id = $1),
      kept as (delete from retention where context_id = $1 and first_offset < 9007199254740991)
    delete from context where context_id = $1`,
};
