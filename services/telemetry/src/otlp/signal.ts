/** What the three signals of OTLP differ in when a request is read: their messages, and how JSON spells them. */
import type { BinaryReader } from "@bufbuild/protobuf/wire";
import { LogRecord } from "@iterate-platform/proto/opentelemetry/proto/logs/v1/logs";
import { Metric } from "@iterate-platform/proto/opentelemetry/proto/metrics/v1/metrics";
import { Span } from "@iterate-platform/proto/opentelemetry/proto/trace/v1/trace";

/** A request holds resources, each holds scopes, each holds items. */
export interface SignalShape<Item> {
  /** The members that hold resources, scopes and items in JSON. In protobuf they are the fields 1, 2 and 2. */
  readonly members: readonly [resources: string, scopes: string, items: string];
  decode(reader: BinaryReader, length: number): Item;
  fromJson(object: Readonly<Record<string, unknown>>): Item;
}

export const spanShape: SignalShape<Span> = {
  members: ["resourceSpans", "scopeSpans", "spans"],
  decode: (reader, length) => Span.decode(reader, length),
  fromJson: (object) => {
    const links = Array.isArray(object["links"]) ? (object["links"] as unknown[]) : [];
    return Span.fromJSON({ ...withIds(object), links: links.map((link) => withIds(link as Readonly<Record<string, unknown>>)) });
  },
};

export const logShape: SignalShape<LogRecord> = {
  members: ["resourceLogs", "scopeLogs", "logRecords"],
  decode: (reader, length) => LogRecord.decode(reader, length),
  fromJson: (object) => LogRecord.fromJSON(withIds(object)),
};

export const metricShape: SignalShape<Metric> = {
  members: ["resourceMetrics", "scopeMetrics", "metrics"],
  decode: (reader, length) => Metric.decode(reader, length),
  fromJson: (object) => Metric.fromJSON(object),
};

const idNames = ["traceId", "spanId", "parentSpanId"] as const;

/** OTLP's JSON spells ids in hexadecimal, where JSON of protobuf has base64. An id that is not hexadecimal becomes no id. */
function withIds(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const result: Record<string, unknown> = { ...object };
  for (const name of idNames) {
    const id = object[name];
    if (typeof id === "string") result[name] = /^[0-9a-f]*$/i.test(id) ? Buffer.from(id, "hex").toString("base64") : "";
  }
  return result;
}
