/** From OTLP's messages to rows. What cannot be stored is told apart by why. */
import type { LogRecord } from "@iterate-platform/proto/opentelemetry/proto/logs/v1/logs";
import { Status_StatusCode, type Span, type Span_Link } from "@iterate-platform/proto/opentelemetry/proto/trace/v1/trace";
import { bounded, maxAgeMs, maxAheadMs, maxBodyLength, maxLinks, maxNameLength, maxStatusLength } from "../limits.js";
import type { LogRow, Severity } from "../store/log-batch.js";
import type { LinkRow, SpanRow } from "../store/span-batch.js";
import { attributesOf, jsonOf } from "./attributes.js";

/** Why an item is not stored, as senders are told. */
export const rejections = {
  ids: "without a valid trace and span id",
  time: "of a time more than a day ago or an hour ahead",
} as const;
export type Rejection = keyof typeof rejections;

const nsPerUs = 1_000n;

export function spanRow(service: string, span: Span, nowMs: number): SpanRow | Rejection {
  if (!isId(span.traceId, 16) || !isId(span.spanId, 8)) return "ids";
  const startUs = span.startTimeUnixNano / nsPerUs;
  if (!isNear(startUs, nowMs)) return "time";
  const durationUs = span.endTimeUnixNano / nsPerUs - startUs;
  const { json, owner } = attributesOf(span.attributes);
  return {
    traceId: span.traceId,
    spanId: idNumber(span.spanId),
    parentSpanId: isId(span.parentSpanId, 8) ? idNumber(span.parentSpanId) : 0n,
    startUs,
    // A clock that was set back while the span ran; and a sender's end may be anything.
    durationUs: durationUs < 0n ? 0n : durationUs > maxDurationUs ? maxDurationUs : durationUs,
    kind: kindOf(span.kind),
    isError: span.status?.code === Status_StatusCode.STATUS_CODE_ERROR,
    owner,
    service,
    name: bounded(span.name, maxNameLength),
    statusMessage: bounded(span.status?.message ?? "", maxStatusLength),
    attributes: json,
    links: linkRows(span.links),
  };
}

/** One that is not told, or that is not known here, is internal. */
function kindOf(kind: number): number {
  return kind >= 1 && kind <= 5 ? kind : 1;
}

const maxDurationUs = 2n ** 53n;

function linkRows(links: readonly Span_Link[]): LinkRow[] {
  if (links.length === 0) return [];
  return links
    .slice(0, maxLinks)
    .filter(({ traceId, spanId }) => isId(traceId, 16) && isId(spanId, 8))
    .map(({ traceId, spanId }) => ({ traceId, spanId: idNumber(spanId) }));
}

/** `exportId` and `ordinal` name the record: the same request sent again names it the same. */
export function logRow(service: string, record: LogRecord, exportId: bigint, ordinal: number, nowMs: number): LogRow | Rejection {
  const timeNs = record.timeUnixNano || record.observedTimeUnixNano;
  const atUs = timeNs === 0n ? BigInt(nowMs) * nsPerUs : timeNs / nsPerUs;
  if (!isNear(atUs, nowMs)) return "time";
  const { json, owner, context } = attributesOf(record.attributes);
  const body = record.body?.value;
  return {
    owner,
    atUs,
    export: exportId,
    ordinal,
    severity: severityOf(record.severityNumber),
    path: context,
    service,
    span: isId(record.traceId, 16) && isId(record.spanId, 8) ? { traceId: record.traceId, spanId: idNumber(record.spanId) } : null,
    body: bounded(body?.$case === "stringValue" ? body.value : body === undefined ? "" : jsonOf(record.body, 0), maxBodyLength),
    attributes: json,
  };
}

/** OTLP numbers four grades of each severity; what has none is `info`. */
function severityOf(number: number): Severity {
  if (number >= 17) return "error";
  if (number >= 13) return "warn";
  return number >= 1 && number <= 8 ? "debug" : "info";
}

function isId(id: Uint8Array, bytes: number): boolean {
  return id.length === bytes && id.some((byte) => byte !== 0);
}

function idNumber(id: Buffer): bigint {
  return id.readBigInt64BE(0);
}

function isNear(us: bigint, nowMs: number): boolean {
  const ms = Number(us / nsPerUs);
  return ms >= nowMs - maxAgeMs && ms <= nowMs + maxAheadMs;
}
