/** What a session reads of the platform's own telemetry: logs of a project, and traces with what they caused. */
import type { RpcTarget } from "capnweb";

export interface LogsApi extends RpcTarget {
  /**
   * One page of the project's log records, oldest first, as far as they are three seconds old. May be retried. Throws INVALID_INPUT;
   * NOT_A_METHOD when the deployment keeps no telemetry.
   */
  read(args?: ReadLogsArgs): Promise<LogsPage>;
}

export interface ReadLogsArgs {
  /** ISO 8601; only records at or after it. Default: everything that is kept. */
  readonly since?: string;
  /** Only records of this context and below. */
  readonly path?: string;
  /** Goes on after an earlier page; `since` is then not looked at. */
  readonly pageToken?: string;
  /** Most records, 1–1,000, default 200. */
  readonly limit?: number;
}

export interface LogsPage {
  /** May be empty before the end. */
  readonly records: readonly LogRecord[];
  /** Pass it as `pageToken` for what follows; also at the end, to go on later. */
  readonly pageToken: string;
  readonly atEnd: boolean;
}

export interface LogRecord {
  /** ISO 8601. */
  readonly at: string;
  readonly severity: "debug" | "info" | "warn" | "error";
  readonly body: string;
  /** The service that wrote it. */
  readonly service: string;
  /** Absent when it was written outside a trace. */
  readonly span?: SpanReference;
  readonly attributes: Readonly<Record<string, unknown>>;
}

export interface TracesApi extends RpcTarget {
  /**
   * The trace of these 32 hexadecimal characters, as far as it may be seen here. May be retried. Throws INVALID_INPUT; NOT_FOUND when
   * nothing is kept of it; NOT_A_METHOD when the deployment keeps no telemetry.
   */
  get(traceId: string): Promise<Trace>;
}

/** Traces of one project: of each, only what is about this project. */
export interface ProjectTracesApi extends TracesApi {
  /** The trace that an event was committed in. Throws as `get` does, and NOT_FOUND when there is no such event or it was not traced. */
  ofEvent(event: EventPlace): Promise<Trace>;
}

export interface EventPlace {
  /** Absolute path of the context. */
  readonly path: string;
  readonly offset: number;
}

export interface Trace {
  readonly traceId: string;
  /** By their start. */
  readonly spans: readonly TraceSpan[];
  /** Spans of other traces that this one caused, oldest first, at most 1,000. */
  readonly linkedFrom: readonly SpanReference[];
  /** True when the trace has more spans than are answered. */
  readonly truncated: boolean;
}

export interface TraceSpan {
  readonly spanId: string;
  /** Absent at the root; it may name a span that is not kept. */
  readonly parentSpanId?: string;
  readonly name: string;
  readonly service: string;
  readonly kind: "internal" | "server" | "client" | "producer" | "consumer";
  /** Microseconds since 1970. */
  readonly startUs: number;
  readonly durationUs: number;
  readonly error: boolean;
  /** Empty when there is nothing to say. */
  readonly statusMessage: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Spans of other traces that caused this one. */
  readonly links: readonly SpanReference[];
}

export interface SpanReference {
  readonly traceId: string;
  readonly spanId: string;
}
