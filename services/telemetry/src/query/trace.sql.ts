/** Reads of one trace, each by the leading columns of an index. */
import type { Queryable } from "@iterate-platform/service/postgres";

export interface StoredSpan {
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly startUs: string;
  readonly durationUs: string;
  readonly kind: number;
  readonly isError: boolean;
  readonly owner: string;
  readonly service: string;
  readonly name: string;
  readonly statusMessage: string;
  readonly attributes: string;
}

/** The first spans of a trace by their start, at most `maxSpans` and `maxBytes` of attributes. */
export async function spansOfTrace(db: Queryable, traceId: string, maxSpans: number, maxBytes: number): Promise<StoredSpan[]> {
  const { rows } = await db.query<StoredSpan>(
    `select span_id as "spanId", parent_span_id as "parentSpanId", start_us as "startUs", duration_us as "durationUs", kind,
            is_error as "isError", owner, service, name, status_message as "statusMessage", attributes
       from (select *, sum(octet_length(attributes)) over (order by start_us, span_id) as bytes_through
               from span where trace_id = $1) s
      where bytes_through <= $3
      order by start_us, span_id limit $2`,
    [traceId, maxSpans, maxBytes],
  );
  return rows;
}

export interface StoredLink {
  readonly spanId: string;
  readonly linkedTraceId: string;
  readonly linkedSpanId: string;
}

/** Links that spans of the trace have to others. */
export async function linksOfTrace(db: Queryable, traceId: string, limit: number): Promise<StoredLink[]> {
  const { rows } = await db.query<StoredLink>(
    `select span_id as "spanId", linked_trace_id as "linkedTraceId", linked_span_id as "linkedSpanId"
       from span_link where trace_id = $1 order by start_us, span_id, linked_trace_id, linked_span_id limit $2`,
    [traceId, limit],
  );
  return rows;
}

/** Spans of other traces that are linked to one of this one, oldest first; of one owner, or of all when it is empty. */
export async function linkedToTrace(
  db: Queryable,
  traceId: string,
  owner: string,
  limit: number,
): Promise<{ traceId: string; spanId: string }[]> {
  const { rows } = await db.query<{ traceId: string; spanId: string }>(
    `select trace_id as "traceId", span_id as "spanId" from span_link
      where linked_trace_id = $1 and ($2 = '' or owner = $2)
      group by trace_id, span_id order by min(start_us), trace_id, span_id limit $3`,
    [traceId, owner, limit],
  );
  return rows;
}
