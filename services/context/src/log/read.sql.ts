/**
 * Pages of one context's log. Each reads at most `limit` rows and sends the bodies of no more than `maxBytes`: the row that goes
 * over is sent without its body and tells that the page was cut there; the first row is always whole.
 */
import type { Statement } from "./contract.js";

const columns = `"offset", type, format_version, created_at, source, traceparent, idempotency_key, payload, metadata`;

/** `$1` is the context and `$2` the byte bound of every page. */
function page(name: string, rows: string): Statement {
  return {
    name,
    text: `
      select "offset", type, format_version, round(date_part('epoch', created_at) * 1e6)::bigint, source, traceparent, idempotency_key,
        case when is_whole then payload end, case when is_whole then metadata end, running_bytes
      from (
        select *, running_bytes <= $2 or is_first as is_whole
        from (
          select rows.*, sum(body_bytes) over in_order as running_bytes, row_number() over in_order = 1 as is_first
          from (${rows}) rows
          window in_order as (order by "offset" rows unbounded preceding)
        ) counted
        where running_bytes - body_bytes <= $2 or is_first
      ) cut
      order by "offset"`,
  };
}

const bodyBytes = `coalesce(octet_length(payload), 0) + coalesce(octet_length(metadata), 0) as body_bytes`;

/** Events after `$3`, at most `$4`. */
export const eventsAfter = page(
  "events_after",
  `select ${columns}, ${bodyBytes} from event where context_id = $1 and "offset" > $3 order by "offset" limit $4`,
);

/** Events of the types `$5` after `$3` and up to `$6`, at most `$4`, found by looking at each. For short ranges. */
export const eventsOfTypesInRange = page(
  "events_of_types_in_range",
  `select ${columns}, ${bodyBytes} from event
   where context_id = $1 and "offset" > $3 and "offset" <= $6 and type = any($5::int[])
   order by "offset" limit $4`,
);

/** The same, looking only into the blocks that hold such a type. Right where every block of the range is entered. */
export const eventsOfTypesInBlocks = page(
  "events_of_types_in_blocks",
  `select block.block, found.*
   from (
     select distinct block from type_block
     where context_id = $1 and type = any($5::int[]) and block >= $3::bigint / 1024 and block <= $6::bigint / 1024
     order by block
   ) block
   cross join lateral (
     select ${columns}, ${bodyBytes} from event
     where context_id = $1 and "offset" > greatest($3, block.block * 1024 - 1) and "offset" <= least($6, block.block * 1024 + 1023) and type = any($5::int[])
     order by "offset" limit $4
   ) found
   order by block.block, found."offset" limit $4`,
);

/** Numbers of the types named in `$1`: [name, type]. */
export const typesByName: Statement = {
  name: "types_by_name",
  text: `select name, type from event_type where name = any($1::text[])`,
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
