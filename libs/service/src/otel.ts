/**
 * OpenTelemetry of one process: traces of HTTP, gRPC and Postgres and the log records, exported over OTLP gRPC. It must start before
 * the modules it instruments are imported (`otel-register`), and it never traces its own exports.
 */
import { hostname } from "node:os";
import { context, propagation, SpanStatusCode, trace, TraceFlags } from "@opentelemetry/api";
import { logs } from "@opentelemetry/api-logs";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { ExportResultCode, suppressTracing, W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-grpc";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { registerInstrumentations } from "@opentelemetry/instrumentation";
import { GrpcInstrumentation } from "@opentelemetry/instrumentation-grpc";
import { HttpInstrumentation } from "@opentelemetry/instrumentation-http";
import { PgInstrumentation } from "@opentelemetry/instrumentation-pg";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { LoggerProvider, type LogRecordProcessor, type SdkLogRecord } from "@opentelemetry/sdk-logs";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  createAlwaysRecordSampler,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type ReadableSpan,
  type Sampler,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace";
import { ExportQueue } from "./export-queue.js";
import type { Telemetry } from "./telemetry.js";

export interface TelemetryOptions {
  readonly service: string;
  /** OTLP gRPC receiver, `http(s)://host:port`. */
  readonly endpoint: string;
  /** Share of traces kept, decided at their root; failed spans and slow roots are kept besides. */
  readonly sampleRatio: number;
  /** Identifies this process among the service's. */
  readonly instanceId: string;
}

/** A local root that took longer is kept whatever the sampler said, ms. */
const slowRootMs = 1_000;

/** Calls that are about telemetry, probes or discovery, and the sweep of the commit feed, which would drown what it finds. */
const untracedMethods = ["Export", "Check", "Watch", "List", "ServerReflectionInfo", "ListCommits"];
const untracedPaths = new Set(["/livez", "/readyz", "/metrics", "/v1/traces", "/v1/logs", "/v1/metrics"]);

/** Registers the global providers and instrumentations. Once per process. */
export function startTelemetry(options: TelemetryOptions): Telemetry {
  const resource = resourceFromAttributes({
    "service.name": options.service,
    "service.namespace": "iterate",
    "service.instance.id": options.instanceId,
    "host.name": hostname(),
    "process.pid": process.pid,
  });
  const spanExporter = new OTLPTraceExporter({ url: options.endpoint });
  const logExporter = new OTLPLogExporter({ url: options.endpoint });
  const spans = new ExportQueue<ReadableSpan>({ send: untraced((batch, done) => spanExporter.export(batch, done)) });
  const records = new ExportQueue<SdkLogRecord>({ send: untraced((batch, done) => logExporter.export(batch, done)) });

  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const tracerProvider = new TracerProvider({
    resource,
    sampler: samplerOf(options.sampleRatio),
    spanProcessors: [spanProcessor(spans)],
  });
  trace.setGlobalTracerProvider(tracerProvider);
  logs.setGlobalLoggerProvider(new LoggerProvider({ resource, processors: [logProcessor(records)] }));
  registerInstrumentations({
    tracerProvider,
    instrumentations: [
      new HttpInstrumentation({
        requireParentforOutgoingSpans: true,
        ignoreIncomingRequestHook: (request) => untracedPaths.has((request.url ?? "").split("?")[0]!),
      }),
      new GrpcInstrumentation({ ignoreGrpcMethods: untracedMethods }),
      // Statements carry their text; values never, they are other people's data.
      new PgInstrumentation({ requireParentSpan: true, ignoreConnectSpans: true, enhancedDatabaseReporting: false }),
    ],
  });

  let isEnded: Promise<void> | null = null;
  return {
    counts: () => [
      { signal: "traces", ...spans.counts },
      { signal: "logs", ...records.counts },
    ],
    shutdown: (boundMs) => {
      isEnded ??= Promise.all([spans.flush(boundMs), records.flush(boundMs)]).then(() => {});
      return isEnded;
    },
  };
}

function samplerOf(ratio: number): Sampler {
  if (ratio >= 1) return new ParentBasedSampler({ root: new AlwaysOnSampler() });
  const root = ratio <= 0 ? new AlwaysOffSampler() : new TraceIdRatioBasedSampler(ratio);
  // What is not sampled is recorded all the same: only its end tells whether it failed or was slow.
  return createAlwaysRecordSampler(new ParentBasedSampler({ root }));
}

function spanProcessor(queue: ExportQueue<ReadableSpan>): SpanProcessor {
  const settled = Promise.resolve();
  return {
    onStart: () => {},
    onEnd: (span) => {
      if (isKept(span)) queue.add(span);
    },
    forceFlush: () => settled,
    shutdown: () => settled,
  };
}

function isKept(span: ReadableSpan): boolean {
  if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) !== 0 || span.status.code === SpanStatusCode.ERROR) return true;
  const isLocalRoot = span.parentSpanContext === undefined || span.parentSpanContext.isRemote === true;
  return isLocalRoot && span.duration[0] * 1_000 + span.duration[1] / 1e6 > slowRootMs;
}

function logProcessor(queue: ExportQueue<SdkLogRecord>): LogRecordProcessor {
  const settled = Promise.resolve();
  return { onEmit: (record) => queue.add(record), forceFlush: () => settled, shutdown: () => settled };
}

function untraced<Item>(send: (batch: Item[], done: (result: { code: ExportResultCode }) => void) => void) {
  return (batch: Item[], done: (isTaken: boolean) => void): void =>
    context.with(suppressTracing(context.active()), () => send(batch, ({ code }) => done(code === ExportResultCode.SUCCESS)));
}
