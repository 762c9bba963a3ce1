/** A log written by plain SQL, for tests and benches of the read side: the rows an append would leave behind. */
import type { Pool } from "@iterate-platform/service/postgres";
import { partitionOf } from "@iterate-platform/service/ids";
import type { ContextAddress } from "./contract.js";

export interface WrittenEvent {
  readonly type: string;
  readonly payload?: string | null;
  readonly metadata?: string | null;
  readonly key?: string;
  readonly source?: string;
  readonly isControl?: boolean;
}

export const plainSource = JSON.stringify({
  origin: "/",
  cause: { chain: "2025-01-01T00:00:00.000Z with test ~1", depth: 0 },
  platform: true,
});

/** Makes the context when it is not there; answers its id. */
export async function bear(pool: Pool, { owner, path }: ContextAddress): Promise<number> {
  const partition = partitionOf(owner, path);
  const { rows } = await pool.query<{ context_id: string }>(
    `with found as (select context_id from context where owner = $1 and path = $2),
          counted as (
            insert into partition_counter (partition, last_number) select $3, 1 where not exists (select from found)
            on conflict (partition) do update set last_number = partition_counter.last_number + 1 returning last_number
          ),
          made as (insert into context (context_id, owner, path) select ($3::bigint << 40) | last_number, $1, $2 from counted returning context_id)
     select context_id from found union all select context_id from made`,
    [owner, path, partition],
  );
  return Number(rows[0]!.context_id);
}

/** Commits `events` as one commit; answers its number and the offset of its first event. */
export async function write(
  pool: Pool,
  address: ContextAddress,
  events: readonly WrittenEvent[],
  jump = 0,
): Promise<{ commitNo: number; firstOffset: number; contextId: number }> {
  const contextId = await bear(pool, address);
  await pool.query(`insert into event_type (name) select distinct unnest($1::text[]) on conflict do nothing`, [
    events.map(({ type }) => type),
  ]);
  const { rows } = await pool.query<{ commit_no: string; first_offset: string }>(
    `with last as (
       select coalesce(max(commit_no), 0) as commit_no, coalesce(max(greatest(last_offset, reserved_through)), 0) + $10::bigint as reserved, coalesce(max(last_control), 0) as last_control
       from commit where context_id = $1
     ), written as (
       insert into event (context_id, "offset", type, format_version, is_control, idempotency_key, source, payload, metadata)
       select $1, last.reserved + e.n, t.type, 1, e.control, e.key, e.source, e.payload, e.metadata
       from last, unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bool[]) with ordinality e(type, payload, metadata, key, source, control, n)
       join event_type t on t.name = e.type
     )
     insert into commit (context_id, commit_no, first_offset, last_offset, reserved_through, last_control, runner_epoch, generation, writer, partition)
     select $1, last.commit_no + 1, last.reserved + 1, last.reserved + $8, last.reserved + $8,
       case when true = any($7) then last.commit_no + 1 else last.last_control end, 0, 1, 1, $9 from last
     returning commit_no, first_offset`,
    [
      contextId,
      events.map(({ type }) => type),
      events.map(({ payload }) => (payload === undefined ? "{}" : payload)),
      events.map(({ metadata }) => metadata ?? null),
      events.map(({ key }) => key ?? null),
      events.map(({ source }) => source ?? plainSource),
      events.map(({ isControl }) => isControl ?? false),
      events.length,
      partitionOf(address.owner, address.path),
      jump,
    ],
  );
  return { commitNo: Number(rows[0]!.commit_no), firstOffset: Number(rows[0]!.first_offset), contextId };
}
