/**
 * Pages of one context's log. A page may hold many events or few large ones, so the first look sends small bodies alone and of all
 * bodies the size: the reader decides what fits and asks for the large ones that do. (Counting bytes by a window in the statement
 * costs three times as much as reading the rows.)
 *
 * What is read was there for ever or is said to be gone: the first offset of the context is looked at by the same statement, so a
 * truncation that overtakes a reader can never show it a part.
 */
import { smallBodyBytes } from "../log-store.js";
import type { Statement } from "./sql-session.js";

const bodyBytes = "coalesce(octet_length(payload), 0) + coalesce(octet_length(metadata), 0)";
const small = (column: string): string => `case when ${bodyBytes} <= ${smallBodyBytes} then ${column} end`;

/** 8-byte integers come as text, as the driver answers them. One row without a type: events are gone, `offset` is the first that is kept. */
export type EventRow = readonly [
  offset: string,
  type: number | null,
  formatVersion: number,
  createdAtUs: string,
  source: string,
  traceparent: string | null,
  idempotencyKey: string | null,
  payload: string | null,
  metadata: string | null,
  bodyBytes: number,
];

/** `EventRow`. */
const columns = `"offset", type, format_version, round(date_part('epoch', created_at) * 1e6)::bigint, source, traceparent, idempotency_key,
  ${small("payload")}, ${small("metadata")}, ${bodyBytes}`;

/** `rows` of context $1 after offset $2, read where `isKept` holds; one row of the first offset when events after $2 are gone. */
function unlessTruncated(rows: string): string {
  return `(${rows})
    union all
    select first_offset, null, null, null, null, null, null, null, null, null from retention where context_id = $1 and first_offset > $2::bigint + 1`;
}

/** Does not depend on the row: decided once, before the first one is read. */
const isKept = "not exists (select from retention where context_id = $1 and first_offset > $2::bigint + 1)";

/** Events of context $1 after $2, at most $3. */
export const eventsAfter: Statement = {
  name: "events_after",
  text: unlessTruncated(
    `select ${columns} from event where context_id = $1 and "offset" > $2 and ${isKept} order by "offset" limit $3`,
  ),
};

/** The same up to $5 and of the types $4, found by looking at each event. For short ranges. */
export const eventsOfTypesInRange: Statement = {
  name: "events_of_types_in_range",
  text: unlessTruncated(`
    select ${columns} from event
    where context_id = $1 and "offset" > $2 and "offset" <= $5 and type = any($4::int[]) and ${isKept}
    order by "offset" limit $3`),
};

/** The same, looking only into the blocks that hold such a type. Right where every block of the range is entered. */
export const eventsOfTypesInBlocks: Statement = {
  name: "events_of_types_in_blocks",
  text: unlessTruncated(`
    select found.*
    from (
      select distinct block from type_block
      where context_id = $1 and type = any($4::int[]) and block >= $2::bigint / 1024 and block <= $5::bigint / 1024 and ${isKept}
      order by block
    ) block
    cross join lateral (
      select ${columns} from event
      where context_id = $1 and "offset" > greatest($2, block.block * 1024 - 1) and "offset" <= least($5, block.block * 1024 + 1023) and type = any($4::int[])
      order by "offset" limit $3
    ) found
    order by block.block, found."offset" limit $3`),
};

export type BodyRow = readonly [offset: string, payload: string | null, metadata: string | null];

/** Bodies of those of the events $2 of context $1 that have not been given up: `BodyRow`. */
export const bodiesOf: Statement = {
  name: "bodies_of",
  text: `select "offset", payload, metadata from event where context_id = $1 and "offset" = any($2::bigint[]) and format_version > 0`,
};

/** `[first offset]` of context $1, when it is not the first of all. */
export const firstOffset: Statement = {
  name: "first_offset",
  text: `select first_offset from retention where context_id = $1`,
};

/** Names of the types numbered in `$1`: [type, name]. */
export const typesByNumber: Statement = {
  name: "types_by_number",
  text: `select type, name from event_type where type = any($1::int[])`,
};

/** The block below which all of a context are entered. */
export const typeBlockMark: Statement = {
  name: "type_block_mark",
  text: `select through_block from type_block_mark where context_id = $1`,
};

/** Enters the blocks from `$2` to below `$3`, which must be complete, and moves the mark. May be repeated and raced. */
export const enterTypeBlocks: Statement = {
  name: "enter_type_blocks",
  text: `
    with entered as (
      insert into type_block (context_id, type, block)
      select distinct context_id, type, "offset" / 1024 from event
      where context_id = $1 and "offset" >= $2::bigint * 1024 and "offset" < $3::bigint * 1024
      order by type, 3
      on conflict do nothing
    )
    insert into type_block_mark as mark (context_id, through_block) values ($1, $3)
    on conflict (context_id) do update set through_block = greatest(mark.through_block, excluded.through_block)`,
};
