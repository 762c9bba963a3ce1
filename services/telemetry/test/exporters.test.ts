/** The official exporters against the real service: what they send is what is answered. */
import { fileURLToPath } from "node:url";
import { SpanKind, SpanStatusCode, trace, ROOT_CONTEXT, type HrTime } from "@opentelemetry/api";
import { SeverityNumber } from "@opentelemetry/api-logs";
import { ExportResultCode, type ExportResult } from "@opentelemetry/core";
import { OTLPLogExporter as GrpcLogs } from "@opentelemetry/exporter-logs-otlp-grpc";
import { OTLPLogExporter as JsonLogs } from "@opentelemetry/exporter-logs-otlp-http";
import { OTLPLogExporter as ProtoLogs } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-grpc";
import { OTLPTraceExporter as GrpcTraces } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as JsonTraces } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtoTraces } from "@opentelemetry/exporter-trace-otlp-proto";
import { CompressionAlgorithm } from "@opentelemetry/otlp-exporter-base";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { LoggerProvider, type LogRecordExporter, type SdkLogRecord } from "@opentelemetry/sdk-logs";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { AlwaysOnSampler, TracerProvider, type ReadableSpan, type SpanExporter } from "@opentelemetry/sdk-trace";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool } from "@iterate-platform/service/postgres";
import { eventually, freePort, useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Deployment, TelemetryProcess } from "./telemetry-process.js";

const database = useTestDatabase();
let deployment: Deployment;
let telemetry: TelemetryProcess;
let ingress: ReturnType<TelemetryProcess["as"]>;

beforeAll(async () => {
  await migrate({ url: database.url, dir: fileURLToPath(new URL("../migrations", import.meta.url)) });
  deployment = await Deployment.make();
  // It exports to itself, as every service does.
  const port = await freePort();
  telemetry = await TelemetryProcess.start({
    deployment,
    databaseUrl: database.url,
    preload: [fileURLToPath(new URL("../../../libs/service/src/otel-register.ts", import.meta.url))],
    env: {
      OTLP_GRPC_LISTEN: `127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_SERVICE_NAME: "telemetry",
    },
  });
  ingress = telemetry.as("ingress");
});
afterAll(async () => {
  await telemetry?.stop();
  deployment?.remove();
});

const resource = resourceFromAttributes({ "service.name": "shop" });
const base = Date.now() - 60_000;
const at = (ms: number): HrTime => [Math.floor((base + ms) / 1000), ((base + ms) % 1000) * 1_000_000 + 123_000];

/** Two spans: a root, and a failed child that is linked to another trace. */
function recorded(): ReadableSpan[] {
  const ended: ReadableSpan[] = [];
  const provider = new TracerProvider({
    resource,
    sampler: new AlwaysOnSampler(),
    spanProcessors: [
      { onStart: () => {}, onEnd: (span) => void ended.push(span), forceFlush: async () => {}, shutdown: async () => {} },
    ],
  });
  const tracer = provider.getTracer("test");
  const root = tracer.startSpan("order", {
    kind: SpanKind.SERVER,
    startTime: at(0),
    attributes: { owner: "prj_shop", count: 3, share: 0.5, big: true, tags: ["a", "b"] },
  });
  const child = tracer.startSpan(
    "charge",
    {
      kind: SpanKind.CLIENT,
      startTime: at(5),
      links: [{ context: { traceId: "ab".repeat(16), spanId: "cd".repeat(8), traceFlags: 1 } }],
    },
    trace.setSpan(ROOT_CONTEXT, root),
  );
  child.setStatus({ code: SpanStatusCode.ERROR, message: "declined" });
  child.end(at(7));
  root.end(at(20));
  return ended;
}

const result = (run: (done: (result: ExportResult) => void) => void): Promise<ExportResult> =>
  new Promise((resolve) => run(resolve));

const gzip = CompressionAlgorithm.GZIP;

describe("traces", () => {
  test.for<[string, () => SpanExporter]>([
    ["gRPC", () => new GrpcTraces({ url: telemetry.otlpGrpcUrl })],
    ["gRPC, gzip", () => new GrpcTraces({ url: telemetry.otlpGrpcUrl, compression: gzip })],
    ["HTTP, protobuf", () => new ProtoTraces({ url: telemetry.otlpHttpUrl("traces") })],
    ["HTTP, protobuf, gzip", () => new ProtoTraces({ url: telemetry.otlpHttpUrl("traces"), compression: gzip })],
    ["HTTP, JSON", () => new JsonTraces({ url: telemetry.otlpHttpUrl("traces") })],
    ["HTTP, JSON, gzip", () => new JsonTraces({ url: telemetry.otlpHttpUrl("traces"), compression: gzip })],
  ])("over %s are answered as they were sent", async ([, make]) => {
    const spans = recorded();
    const exporter = make();
    expect(await result((done) => exporter.export(spans, done))).toEqual({ code: ExportResultCode.SUCCESS });
    await exporter.shutdown();
    const [child, root] = spans.map((span) => span.spanContext());
    const answer = await eventually(() => ingress.getTrace({ owner: "prj_shop", traceId: root!.traceId }), { timeoutMs: 10_000 });
    const startUs = BigInt(base) * 1_000n + 123n;
    expect(answer).toEqual({
      linkedFrom: [],
      truncated: false,
      spans: [
        {
          traceId: root!.traceId,
          spanId: root!.spanId,
          parentSpanId: "",
          name: "order",
          service: "shop",
          kind: "server",
          startUs,
          durationUs: 20_000n,
          error: false,
          statusMessage: "",
          attributes: '{"owner":"prj_shop","count":3,"share":0.5,"big":true,"tags":["a","b"]}',
          links: [],
        },
        {
          traceId: root!.traceId,
          spanId: child!.spanId,
          parentSpanId: root!.spanId,
          name: "charge",
          service: "shop",
          kind: "client",
          startUs: startUs + 5_000n,
          durationUs: 2_000n,
          error: true,
          statusMessage: "declined",
          attributes: "{}",
          links: [{ traceId: "ab".repeat(16), spanId: "cd".repeat(8) }],
        },
      ],
    });
  });
});

describe("logs", () => {
  test.for<[string, string, () => LogRecordExporter]>([
    ["gRPC", "prj_1", () => new GrpcLogs({ url: telemetry.otlpGrpcUrl })],
    ["HTTP, protobuf, gzip", "prj_2", () => new ProtoLogs({ url: telemetry.otlpHttpUrl("logs"), compression: gzip })],
    ["HTTP, JSON", "prj_3", () => new JsonLogs({ url: telemetry.otlpHttpUrl("logs") })],
  ])("over %s are answered as they were sent", async ([, owner, make]) => {
    const emitted: SdkLogRecord[] = [];
    const provider = new LoggerProvider({
      resource,
      processors: [{ onEmit: (record) => void emitted.push(record), forceFlush: async () => {}, shutdown: async () => {} }],
    });
    const context = trace.setSpanContext(ROOT_CONTEXT, { traceId: "12".repeat(16), spanId: "fe".repeat(8), traceFlags: 1 });
    const logger = provider.getLogger("test");
    logger.emit({
      timestamp: at(1),
      severityNumber: SeverityNumber.WARN,
      body: "low on stock",
      context,
      attributes: { owner, context: "/orders/1", left: 2 },
    });
    logger.emit({
      timestamp: at(2),
      severityNumber: SeverityNumber.ERROR,
      body: { code: "E1" },
      context: ROOT_CONTEXT,
      attributes: { owner, context: "/other" },
    });
    const exporter = make();
    expect(await result((done) => exporter.export(emitted, done))).toEqual({ code: ExportResultCode.SUCCESS });
    await exporter.shutdown();
    const ask = { owner, path: "", sinceUs: 0n, pageToken: "", pageSize: 0 };
    const { records } = await eventually(
      async () => {
        const page = await ingress.listLogs(ask);
        return page.records.length > 0 && page;
      },
      { timeoutMs: 10_000 },
    );
    expect(records).toEqual([
      {
        atUs: BigInt(base) * 1_000n + 1_123n,
        severity: "warn",
        body: "low on stock",
        service: "shop",
        traceId: "12".repeat(16),
        spanId: "fe".repeat(8),
        attributes: JSON.stringify({ owner, context: "/orders/1", left: 2 }),
      },
      {
        atUs: BigInt(base) * 1_000n + 2_123n,
        severity: "error",
        body: '{"code":"E1"}',
        service: "shop",
        traceId: "",
        spanId: "",
        attributes: JSON.stringify({ owner, context: "/other" }),
      },
    ]);
    expect((await ingress.listLogs({ ...ask, path: "/orders" })).records.map(({ body }) => body)).toEqual(["low on stock"]);
  });
});

test("metrics are taken, counted as rejected, and the sender is told", async () => {
  const before = await telemetry.metric('iterate_telemetry_items_rejected_total{signal="metrics",reason="unsupported"');
  const reader = new PeriodicExportingMetricReader({
    exporter: new OTLPMetricExporter({ url: telemetry.otlpGrpcUrl }),
    exportIntervalMillis: 3_600_000,
  });
  const provider = new MeterProvider({ resource, readers: [reader] });
  const counter = provider.getMeter("test").createCounter("orders");
  counter.add(1, { kind: "a" });
  counter.add(1, { kind: "b" });
  // Exports what was measured, once.
  await provider.shutdown();
  const after = await telemetry.metric('iterate_telemetry_items_rejected_total{signal="metrics",reason="unsupported"');
  expect(after - before).toBe(2);
});

test("its own work makes spans, its exports and what stores them do not", async () => {
  const traceId = recorded()[0]!.spanContext().traceId;
  await ingress.getTrace({ owner: "", traceId }).catch(() => undefined);
  const { rows } = await eventually(
    async () => {
      const found = await query<{ name: string; attributes: string }>(
        "select distinct name, attributes from span where service = 'telemetry'",
      );
      return found.rows.some(({ name }) => name.includes("GetTrace")) && found;
    },
    { timeoutMs: 10_000 },
  );
  const about = rows
    .map(({ name, attributes }) => `${name} ${attributes}`)
    .filter((text) => /\/Export|insert into|\/v1\//.test(text));
  expect(about).toEqual([]);
});

async function query<Row>(text: string) {
  const pool = createPool({ url: database.url, applicationName: "test", max: 1 });
  try {
    return await pool.query<Row>(text);
  } finally {
    await pool.end();
  }
}
