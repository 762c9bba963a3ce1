import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Server, ServerCredentials, type sendUnaryData, type ServerUnaryCall } from "@grpc/grpc-js";
import {
  LogsServiceService,
  type ExportLogsServiceRequest,
} from "@iterate-platform/proto/opentelemetry/proto/collector/logs/v1/logs_service";
import {
  TraceServiceService,
  type ExportTraceServiceRequest,
} from "@iterate-platform/proto/opentelemetry/proto/collector/trace/v1/trace_service";
import type { LogRecord } from "@iterate-platform/proto/opentelemetry/proto/logs/v1/logs";
import { Span_SpanKind as Kind, type Span } from "@iterate-platform/proto/opentelemetry/proto/trace/v1/trace";
import { startNats, useTestDatabase, type TestNats } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ExportQueue } from "./export-queue.js";

const database = useTestDatabase();
let nats: TestNats;
beforeAll(async () => void (nats = await startNats()));
afterAll(() => nats.stop());

/** An OTLP receiver that keeps what it is sent. */
async function startReceiver() {
  const spans: Span[] = [];
  const records: LogRecord[] = [];
  const services = new Set<string>();
  const server = new Server();
  server.addService(TraceServiceService, {
    export: (call: ServerUnaryCall<ExportTraceServiceRequest, object>, answer: sendUnaryData<object>) => {
      for (const resource of call.request.resourceSpans) {
        for (const { key, value } of resource.resource!.attributes)
          if (key === "service.name" && value?.value?.$case === "stringValue") services.add(value.value.value);
        spans.push(...resource.scopeSpans.flatMap((scope) => scope.spans));
      }
      answer(null, {});
    },
  });
  server.addService(LogsServiceService, {
    export: (call: ServerUnaryCall<ExportLogsServiceRequest, object>, answer: sendUnaryData<object>) => {
      records.push(...call.request.resourceLogs.flatMap((resource) => resource.scopeLogs.flatMap((scope) => scope.logRecords)));
      answer(null, {});
    },
  });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  return { spans, records, services, endpoint: `http://127.0.0.1:${port}`, stop: () => server.forceShutdown() };
}

async function startTraced(env: Record<string, string>) {
  const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
  const child = spawn(
    process.execPath,
    ["--conditions=iterate-source", "--import", "tsx", "--import", here("./otel-register.ts"), here("./otel.fixture.ts")],
    {
      env: {
        PATH: process.env["PATH"]!,
        NODE_NO_WARNINGS: "1",
        DATABASE_URL: database.url,
        NATS_URL: nats.url,
        OTEL_SERVICE_NAME: "traced",
        ...env,
      },
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const lines = child.stdout.setEncoding("utf8")[Symbol.asyncIterator]() as AsyncIterator<string, undefined>;
  const port = Number((await lines.next()).value);
  return {
    url: `http://127.0.0.1:${port}`,
    /** Ends the process in order; answers its export counts. */
    end: async (): Promise<unknown> => {
      const closed = once(child, "close");
      child.kill("SIGTERM");
      let text = "";
      for (let line = await lines.next(); line.done !== true; line = await lines.next()) text += line.value;
      await closed;
      return JSON.parse(text) as unknown;
    },
  };
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const attribute = (span: Span, key: string): unknown => span.attributes.find((entry) => entry.key === key)?.value?.value?.value;
const sql = (span: Span): string =>
  [attribute(span, "db.query.text"), attribute(span, "db.statement")].find((text) => typeof text === "string") ?? "";

describe("telemetry", () => {
  const foreign = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };

  test("of one request is one tree over HTTP, gRPC, Postgres and NATS, linked to the foreign trace it came with", async () => {
    const receiver = await startReceiver();
    const traced = await startTraced({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint });
    const response = await fetch(`${traced.url}/public`, {
      headers: { traceparent: `00-${foreign.traceId}-${foreign.spanId}-01` },
    });
    const traceId = (await response.text()).split("-")[1]!;
    const counts = await traced.end();
    receiver.stop();
    expect(traceId).not.toBe(foreign.traceId);
    expect([...receiver.services]).toEqual(["traced"]);

    const byId = new Map(receiver.spans.map((span) => [hex(span.spanId), span]));
    const path = (span: Span): string[] => {
      const parent = byId.get(hex(span.parentSpanId));
      if (span.parentSpanId.length > 0 && parent === undefined) throw new Error(`${span.name} is an orphan`);
      return [
        ...(parent === undefined ? [] : path(parent)),
        `${Kind[span.kind].replace("SPAN_KIND_", "")} ${sql(span) || span.name}`,
      ];
    };
    const tree = receiver.spans
      .filter((span) => hex(span.traceId) === traceId)
      .map((span) => path(span).join(" > "))
      .sort();
    const call = "CLIENT grpc.iterate.test.v1.EchoService/Unary > SERVER grpc.iterate.test.v1.EchoService/Unary";
    const foreignServer = receiver.spans.filter((span) => hex(span.traceId) !== traceId && span.kind === Kind.SPAN_KIND_SERVER);
    expect(tree).toEqual([
      "SERVER GET",
      "SERVER GET > CLIENT grpc.iterate.test.v1.EchoService/Unary",
      "SERVER GET > CLIENT grpc.iterate.test.v1.EchoService/Unary",
      `SERVER GET > ${call}`,
      `SERVER GET > ${call} > CLIENT select 1 as called`,
      "SERVER GET > PRODUCER send note",
      "SERVER GET > PRODUCER send note > CONSUMER process note",
      "SERVER GET > PRODUCER send note > CONSUMER process note > CLIENT select 2 as consumed",
    ]);

    const root = receiver.spans.find((span) => hex(span.traceId) === traceId && span.parentSpanId.length === 0)!;
    expect(root.links.map((link) => [hex(link.traceId), hex(link.spanId)])).toEqual([[foreign.traceId, foreign.spanId]]);
    // The public gRPC listener took its caller's trace as foreign, too.
    expect(foreignServer.map((span) => span.links.map((link) => hex(link.traceId)))).toEqual([[traceId]]);

    const delivery = receiver.spans.find((span) => span.name === "deliver note")!;
    const sent = receiver.spans.find((span) => span.name === "send note")!;
    expect(delivery.parentSpanId).toHaveLength(0);
    expect(hex(delivery.traceId)).not.toBe(traceId);
    expect(delivery.links.map((link) => hex(link.spanId))).toEqual([hex(sent.spanId)]);
    expect(
      receiver.spans.filter((span) => hex(span.traceId) === hex(delivery.traceId)).map((span) => path(span).join(" > ")),
    ).toContain("CONSUMER deliver note > CLIENT select 3 as delivered");

    expect(receiver.spans.some((span) => sql(span).includes("without_a_parent"))).toBe(false);
    expect(receiver.spans.some((span) => /Export/.test(span.name))).toBe(false);
    const record = receiver.records.find((entry) => entry.body?.value?.value === "handled")!;
    expect(hex(record.traceId)).toBe(traceId);
    expect(counts).toMatchObject([
      { signal: "traces", dropped: 0, failed: 0, queued: 0, exported: receiver.spans.length },
      { signal: "logs", failed: 0, exported: receiver.records.length },
    ]);
  });

  test("keeps failed spans when the sampler keeps nothing", async () => {
    const receiver = await startReceiver();
    const traced = await startTraced({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint, OTEL_TRACES_SAMPLER_ARG: "0" });
    await fetch(traced.url);
    expect((await fetch(`${traced.url}/fail`)).status).toBe(409);
    await traced.end();
    receiver.stop();
    expect(receiver.spans.map((span) => span.name).sort()).toEqual([
      "grpc.iterate.test.v1.EchoService/Unary",
      "grpc.iterate.test.v1.EchoService/Unary",
    ]);
  });

  test("is off without an endpoint", async () => {
    const traced = await startTraced({ OTEL_EXPORTER_OTLP_ENDPOINT: "" });
    expect(await (await fetch(traced.url)).text()).toBe("");
    expect(await traced.end()).toBeNull();
  });

  test("counts what a receiver that is away did not take, and ends in its bound", async () => {
    const traced = await startTraced({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" });
    await fetch(traced.url);
    const startedAt = performance.now();
    const counts = (await traced.end()) as { exported: number }[];
    expect(performance.now() - startedAt).toBeLessThan(9_000);
    expect(counts.map((count) => count.exported)).toEqual([0, 0]);
  });
});

describe("the export queue", () => {
  test("sends full batches at once, the rest after its delay, one export at a time", async () => {
    const batches: number[] = [];
    const open: ((isTaken: boolean) => void)[] = [];
    const queue = new ExportQueue<number>({
      maxBatch: 3,
      delayMs: 20,
      send: (items, done) => {
        batches.push(items.length);
        open.push(done);
      },
    });
    for (let i = 0; i < 7; i += 1) queue.add(i);
    expect(batches).toEqual([3]);
    open.shift()!(true);
    await expect.poll(() => batches).toEqual([3, 3]);
    open.shift()!(true);
    await expect.poll(() => batches).toEqual([3, 3, 1]);
    open.shift()!(false);
    await queue.flush(1_000);
    expect(queue.counts).toEqual({ exported: 6, dropped: 0, failed: 1, queued: 0 });
  });

  test("drops beyond its bound, gives up a stalled export and resumes", async () => {
    let isStalled = true;
    const queue = new ExportQueue<number>({
      maxBatch: 2,
      maxQueued: 4,
      delayMs: 5,
      timeoutMs: 50,
      send: (_items, done) => {
        if (!isStalled) done(true);
      },
    });
    for (let i = 0; i < 10; i += 1) queue.add(i);
    expect(queue.counts).toMatchObject({ queued: 4, dropped: 4 });
    await expect.poll(() => queue.counts.failed).toBe(2);
    isStalled = false;
    await expect.poll(() => queue.counts, { timeout: 2_000 }).toMatchObject({ queued: 0, dropped: 4 });
    const { exported, failed } = queue.counts;
    expect(exported + failed).toBe(6);
    expect(exported).toBeGreaterThan(0);
  });

  test("survives an exporter that throws, and bounds its flush", async () => {
    const throwing = new ExportQueue<number>({
      send: () => {
        throw new Error("no");
      },
    });
    throwing.add(1);
    await throwing.flush(1_000);
    expect(throwing.counts.failed).toBe(1);
    const stuck = new ExportQueue<number>({ send: () => {} });
    stuck.add(1);
    const startedAt = performance.now();
    await stuck.flush(50);
    expect(performance.now() - startedAt).toBeLessThan(1_000);
  });
});
