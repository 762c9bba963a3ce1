/** One trace, as much of it as its reader may see, and what is linked to it. */
import type { GetTraceRequest, GetTraceResponse } from "@iterate-platform/proto/iterate/telemetry/v1/query";
import type { Queryable } from "@iterate-platform/service/postgres";
import { codedError } from "iterate/lib";
import { checkOwner } from "./check-owner.js";
import { checkTraceId, spanIdOf, traceIdOf } from "./ids.js";
import { spansOfOwner } from "./owners.js";
import { linkedToTrace, linksOfTrace, spansOfTrace, type StoredLink, type StoredSpan } from "./trace.sql.js";

export const maxSpans = 2_000;
export const maxAttributesBytes = 8_388_608;
export const maxLinkedFrom = 1_000;
/** Links out of one trace. */
const maxLinksOut = 10_000;

const kinds = ["internal", "internal", "server", "client", "producer", "consumer"];

/** Throws INVALID_INPUT; NOT_FOUND when nothing of the trace, and nothing linked to it, is kept for this owner. */
export async function getTrace(db: Queryable, request: GetTraceRequest): Promise<GetTraceResponse> {
  const traceId = checkTraceId(request.traceId);
  const owner = checkOwner(request.owner, "allowed");
  const found = await spansOfTrace(db, traceId, maxSpans + 1, maxAttributesBytes);
  const stored = found.slice(0, maxSpans);
  const visible = owner === "" ? stored : spansOfOwner(stored, owner);
  const links = visible.length === 0 ? [] : await linksOfTrace(db, traceId, maxLinksOut);
  const linkedFrom = await linkedToTrace(db, traceId, owner, maxLinkedFrom);
  if (visible.length === 0 && linkedFrom.length === 0) {
    throw codedError(
      "NOT_FOUND",
      `nothing is kept of the trace ${traceId}${owner === "" ? "" : " for this project"}; it may not have been sampled, or be on its way`,
      { traceId },
    );
  }
  const linksBySpan = Map.groupBy(links, ({ spanId }) => spanId);
  return {
    spans: visible.map((span) => toSpan(traceId, span, linksBySpan.get(span.spanId) ?? [])),
    linkedFrom: linkedFrom.map((link) => ({ traceId: traceIdOf(link.traceId), spanId: spanIdOf(link.spanId) })),
    truncated: found.length > maxSpans,
  };
}

function toSpan(traceId: string, span: StoredSpan, links: readonly StoredLink[]): GetTraceResponse["spans"][number] {
  return {
    traceId,
    spanId: spanIdOf(span.spanId),
    parentSpanId: span.parentSpanId === "0" ? "" : spanIdOf(span.parentSpanId),
    name: span.name,
    service: span.service,
    kind: kinds[span.kind] ?? "internal",
    startUs: BigInt(span.startUs),
    durationUs: BigInt(span.durationUs),
    error: span.isError,
    statusMessage: span.statusMessage,
    attributes: span.attributes,
    links: links.map(({ linkedTraceId, linkedSpanId }) => ({ traceId: traceIdOf(linkedTraceId), spanId: spanIdOf(linkedSpanId) })),
  };
}
