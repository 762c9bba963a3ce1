/** Telemetry as sessions read it: from the wire of `telemetry` to the types of `iterate/api`. */
import type { ListLogsResponse, Span, TelemetryQueryServiceClient } from "@iterate-platform/proto/iterate/telemetry/v1/query";
import type { ContextClient } from "@iterate-platform/service/context-log";
import type { ServiceClient } from "@iterate-platform/service/grpc-client";
import type { EventPlace, LogRecord, LogsPage, ReadLogsArgs, Trace, TraceSpan } from "iterate/api";
import { codedError } from "iterate/lib";

export type TelemetryClient = ServiceClient<(typeof TelemetryQueryServiceClient)["service"]>;

export class TelemetryReader {
  readonly #telemetry: TelemetryClient | null;
  readonly #context: Pick<ContextClient, "readEvents">;

  /** Without a telemetry service every read throws NOT_A_METHOD. */
  constructor(telemetry: TelemetryClient | null, context: Pick<ContextClient, "readEvents">) {
    this.#telemetry = telemetry;
    this.#context = context;
  }

  async logs(owner: string, args: ReadLogsArgs, principal: string): Promise<LogsPage> {
    const { records, nextPageToken, atEnd } = await this.#client().listLogs(
      {
        owner,
        path: args.path ?? "",
        sinceUs: args.since === undefined ? 0n : BigInt(Date.parse(args.since)) * 1_000n,
        pageToken: args.pageToken ?? "",
        pageSize: args.limit ?? 0,
      },
      { principal },
    );
    return { records: records.map(toLogRecord), pageToken: nextPageToken, atEnd };
  }

  /** What `owner` may see of a trace; an empty owner sees all of it. */
  async trace(owner: string, traceId: string, principal: string): Promise<Trace> {
    const { spans, linkedFrom, truncated } = await this.#client().getTrace({ owner, traceId }, { principal });
    return { traceId: traceId.toLowerCase(), spans: spans.map(toTraceSpan), linkedFrom, truncated };
  }

  /** The trace that committed an event of the project. */
  async traceOfEvent(owner: string, { path, offset }: EventPlace, principal: string): Promise<Trace> {
    this.#client();
    const { events } = await this.#context.readEvents(
      { context: { owner, path }, afterOffset: BigInt(offset - 1), limit: 1, types: [], includeEphemeral: false },
      { principal },
    );
    const event = events[0];
    if (event?.offset !== BigInt(offset)) throw codedError("NOT_FOUND", `the context ${path} keeps no event at offset ${offset}`);
    const traceId = event.traceparent.split("-")[1];
    if (traceId === undefined) throw codedError("NOT_FOUND", `the event at offset ${offset} of ${path} was not traced`);
    return this.trace(owner, traceId, principal);
  }

  #client(): TelemetryClient {
    if (this.#telemetry === null)
      throw codedError("NOT_A_METHOD", "this deployment keeps no telemetry: its ingress has no TELEMETRY_URL");
    return this.#telemetry;
  }
}

type WireRecord = ListLogsResponse["records"][number];

function toLogRecord({ atUs, severity, body, service, traceId, spanId, attributes }: WireRecord): LogRecord {
  return {
    at: new Date(Number(atUs / 1_000n)).toISOString(),
    severity: severity as LogRecord["severity"],
    body,
    service,
    ...(traceId === "" ? {} : { span: { traceId, spanId } }),
    attributes: JSON.parse(attributes) as Record<string, unknown>,
  };
}

function toTraceSpan(span: Span): TraceSpan {
  return {
    spanId: span.spanId,
    ...(span.parentSpanId === "" ? {} : { parentSpanId: span.parentSpanId }),
    name: span.name,
    service: span.service,
    kind: span.kind as TraceSpan["kind"],
    startUs: Number(span.startUs),
    durationUs: Number(span.durationUs),
    error: span.error,
    statusMessage: span.statusMessage,
    attributes: JSON.parse(span.attributes) as Record<string, unknown>,
    links: span.links,
  };
}
