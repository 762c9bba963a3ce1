/** Export requests for tests, as senders encode them. */
import { randomBytes } from "node:crypto";
import type { AnyValue, KeyValue } from "@iterate-platform/proto/opentelemetry/proto/common/v1/common";
import { ExportLogsServiceRequest } from "@iterate-platform/proto/opentelemetry/proto/collector/logs/v1/logs_service";
import { ExportTraceServiceRequest } from "@iterate-platform/proto/opentelemetry/proto/collector/trace/v1/trace_service";
import { LogRecord } from "@iterate-platform/proto/opentelemetry/proto/logs/v1/logs";
import { Span } from "@iterate-platform/proto/opentelemetry/proto/trace/v1/trace";

type Value = string | number | boolean | bigint;

export function value(given: Value): AnyValue {
  if (typeof given === "string") return { value: { $case: "stringValue", value: given } };
  if (typeof given === "boolean") return { value: { $case: "boolValue", value: given } };
  if (typeof given === "bigint") return { value: { $case: "intValue", value: given } };
  return { value: { $case: "doubleValue", value: given } };
}

export function attributes(given: Readonly<Record<string, Value>>): KeyValue[] {
  return Object.entries(given).map(([key, each]) => ({ key, value: value(each) }));
}

export const newTraceId = (): string => randomBytes(16).toString("hex");
export const newSpanId = (): string => randomBytes(8).toString("hex");

export interface SpanSketch {
  readonly traceId: string;
  readonly spanId?: string;
  readonly parentSpanId?: string;
  readonly name?: string;
  readonly startMs?: number;
  readonly attributes?: Readonly<Record<string, Value>>;
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
}

export function span(sketch: SpanSketch): Span {
  const startNs = BigInt(sketch.startMs ?? Date.now() - 10_000) * 1_000_000n;
  return Span.fromPartial({
    traceId: Buffer.from(sketch.traceId, "hex"),
    spanId: Buffer.from(sketch.spanId ?? newSpanId(), "hex"),
    parentSpanId: Buffer.from(sketch.parentSpanId ?? "", "hex"),
    name: sketch.name ?? "work",
    kind: 1,
    startTimeUnixNano: startNs,
    endTimeUnixNano: startNs + 2_500_000n,
    attributes: attributes(sketch.attributes ?? {}),
    links: (sketch.links ?? []).map((link) => ({
      traceId: Buffer.from(link.traceId, "hex"),
      spanId: Buffer.from(link.spanId, "hex"),
    })),
  });
}

export function traceRequest(service: string, spans: readonly Span[]): Buffer {
  const resource = { attributes: attributes({ "service.name": service }) };
  return Buffer.from(
    ExportTraceServiceRequest.encode(
      ExportTraceServiceRequest.fromPartial({ resourceSpans: [{ resource, scopeSpans: [{ spans: [...spans] }] }] }),
    ).finish(),
  );
}

export function logRecord(atMs: number, body: string, given: Readonly<Record<string, Value>> = {}): LogRecord {
  return LogRecord.fromPartial({
    timeUnixNano: BigInt(atMs) * 1_000_000n,
    severityNumber: 9,
    body: value(body),
    attributes: attributes(given),
  });
}

export function logRequest(service: string, logRecords: readonly LogRecord[]): Buffer {
  const resource = { attributes: attributes({ "service.name": service }) };
  return Buffer.from(
    ExportLogsServiceRequest.encode(
      ExportLogsServiceRequest.fromPartial({ resourceLogs: [{ resource, scopeLogs: [{ logRecords: [...logRecords] }] }] }),
    ).finish(),
  );
}
