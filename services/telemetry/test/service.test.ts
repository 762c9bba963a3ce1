/** The whole service on a real database that goes away and comes back, and what senders get wrong. */
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { ChannelCredentials, compressionAlgorithms, makeClientConstructor, type ServiceError } from "@grpc/grpc-js";
import { RetryInfo } from "@iterate-platform/proto/google/rpc/error_details";
import { Status } from "@iterate-platform/proto/google/rpc/status";
import { ExportLogsServiceResponse } from "@iterate-platform/proto/opentelemetry/proto/collector/logs/v1/logs_service";
import {
  ExportTraceServiceRequest,
  ExportTraceServiceResponse,
  TraceServiceService,
} from "@iterate-platform/proto/opentelemetry/proto/collector/trace/v1/trace_service";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { eventually, FaultProxy, useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { logRecord, logRequest, newSpanId, newTraceId, span, traceRequest } from "../src/otlp/export.fixture.js";
import { Deployment, TelemetryProcess } from "./telemetry-process.js";

const protobuf = { "content-type": "application/x-protobuf" };
const json = { "content-type": "application/json" };
const dayMs = 24 * 3_600_000;

const database = useTestDatabase();
let deployment: Deployment;
let proxy: FaultProxy;
let telemetry: TelemetryProcess;
let ingress: ReturnType<TelemetryProcess["as"]>;
let db: Pool;

beforeAll(async () => {
  await migrate({ url: database.url, dir: fileURLToPath(new URL("../migrations", import.meta.url)) });
  [deployment, proxy] = await Promise.all([Deployment.make(), FaultProxy.start(database.url)]);
  telemetry = await TelemetryProcess.start({
    deployment,
    databaseUrl: proxy.url(database.url),
    env: { TELEMETRY_QUEUE_BYTES: "8388608" },
  });
  ingress = telemetry.as("ingress");
  db = createPool({ url: database.url, applicationName: "test", max: 2 });
});
afterAll(async () => {
  await telemetry?.stop();
  await db?.end();
  proxy?.stop();
  deployment?.remove();
});

const traceClient = () => {
  const Client = makeClientConstructor(TraceServiceService, "TraceService");
  return new Client(telemetry.otlpGrpcUrl.replace("http://", ""), ChannelCredentials.createInsecure());
};

/** One call of a method with bytes in place of its message. */
async function exportBytes(body: Buffer, options = {}): Promise<ExportTraceServiceResponse> {
  const client = traceClient();
  const { path, responseDeserialize } = TraceServiceService.export;
  try {
    return await new Promise((resolve, reject) =>
      client.makeUnaryRequest(
        path,
        (bytes: Buffer) => bytes,
        responseDeserialize,
        body,
        { deadline: Date.now() + 15_000, ...options } as never,
        (error: ServiceError | null, answer?: ExportTraceServiceResponse) => (error === null ? resolve(answer!) : reject(error)),
      ),
    );
  } finally {
    client.close();
  }
}

const storedSpans = async (traceId: string): Promise<number> =>
  Number((await db.query<{ count: string }>("select count(*) from span where trace_id = $1", [traceId])).rows[0]!.count);
const storedLogs = async (owner: string): Promise<number> =>
  Number((await db.query<{ count: string }>("select count(*) from log_record where owner = $1", [owner])).rows[0]!.count);

const droppedItems = async (): Promise<number> =>
  (await telemetry.metric('iterate_telemetry_items_dropped_total{signal="traces"')) +
  (await telemetry.metric('iterate_telemetry_items_dropped_total{signal="logs"'));

describe("partial success", () => {
  const traceId = newTraceId();
  const request = traceRequest("shop", [
    span({ traceId }),
    span({ traceId: "00".repeat(16) }),
    span({ traceId, spanId: "ab" }),
    span({ traceId, startMs: Date.now() - dayMs - 60_000 }),
    span({ traceId, startMs: Date.now() + 3_600_000 + 60_000 }),
  ]);
  const message =
    "4 of 5 spans are not stored: 2 without a valid trace and span id, 2 of a time more than a day ago or an hour ahead";

  test("says over gRPC and HTTP how many items are not stored, and why", async () => {
    const before = await telemetry.metric('iterate_telemetry_items_rejected_total{signal="traces",reason="ids"');
    expect(await exportBytes(request)).toEqual({ partialSuccess: { rejectedSpans: 4n, errorMessage: message } });
    const overHttp = await telemetry.post("traces", new Uint8Array(request), protobuf);
    expect(overHttp.status).toBe(200);
    expect(ExportTraceServiceResponse.decode(await overHttp.bytes())).toEqual({
      partialSuccess: { rejectedSpans: 4n, errorMessage: message },
    });
    const overJson = await telemetry.post(
      "traces",
      JSON.stringify(ExportTraceServiceRequest.toJSON(ExportTraceServiceRequest.decode(request))),
      json,
    );
    // Ids in base64 are no ids in OTLP's JSON.
    expect(await overJson.json()).toMatchObject({ partialSuccess: { rejectedSpans: "5" } });
    await telemetry.settled();
    expect(await storedSpans(traceId)).toBe(1);
    expect((await telemetry.metric('iterate_telemetry_items_rejected_total{signal="traces",reason="ids"')) - before).toBe(9);
  });

  test("is absent when everything was taken", async () => {
    expect(await exportBytes(traceRequest("shop", [span({ traceId })]))).toEqual({ partialSuccess: undefined });
    expect(await exportBytes(Buffer.alloc(0))).toEqual({ partialSuccess: undefined });
    const overHttp = await telemetry.post("logs", new Uint8Array(logRequest("shop", [logRecord(Date.now(), "hello")])), protobuf);
    expect(ExportLogsServiceResponse.decode(await overHttp.bytes())).toEqual({ partialSuccess: undefined });
  });
});

describe("bodies that are not OTLP", () => {
  const nested = (depth: number): Buffer => {
    let inner = Buffer.alloc(0);
    for (let level = 0; level < depth; level += 1) {
      const length = varint(inner.length);
      inner = Buffer.concat([Buffer.from([0x2a]), varint(1 + length.length + inner.length), Buffer.from([0x0a]), length, inner]);
    }
    return inner;
  };
  const varint = (value: number): Buffer => {
    const bytes: number[] = [];
    for (; value > 127; value >>>= 7) bytes.push((value & 127) | 128);
    return Buffer.from([...bytes, value]);
  };
  const field = (tag: number, body: Buffer): Buffer => Buffer.concat([Buffer.from([tag]), varint(body.length), body]);
  const whole = traceRequest("shop", [span({ traceId: "77".repeat(16) })]);
  /** A request whose second span breaks off. */
  const half = Buffer.concat([whole, whole.subarray(0, whole.length - 3)]);

  test.for<[string, Buffer]>([
    ["bytes at random", Buffer.from("not a request at all")],
    ["a request that breaks off", half],
    ["a length beyond the end", Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x07])],
    ["an attribute nested ten thousand deep", field(0x0a, field(0x12, field(0x12, field(0x4a, field(0x12, nested(10_000))))))],
  ])("%s: INVALID_ARGUMENT and 400, nothing of it is stored", async ([, body]) => {
    await expect(exportBytes(body)).rejects.toMatchObject({ code: 3 });
    const response = await telemetry.post("traces", new Uint8Array(body), protobuf);
    expect([response.status, response.headers.get("content-type"), response.headers.get("retry-after")]).toEqual([
      400,
      "application/x-protobuf",
      null,
    ]);
    expect(Status.decode(await response.bytes())).toMatchObject({
      code: 3,
      message: expect.stringContaining("not an OTLP request in protobuf") as unknown,
    });
    await telemetry.settled();
    expect(await storedSpans("77".repeat(16))).toBe(0);
  });

  test.for<[string, string]>([
    ["no JSON", "{"],
    ["a list", "[]"],
    ["a list where an object belongs", '{"resourceSpans":[[]]}'],
    ["an object where a list belongs", '{"resourceSpans":{}}'],
    ["a time that is no number", '{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"soon"}]}]}]}'],
    ["a link that is no object", '{"resourceSpans":[{"scopeSpans":[{"spans":[{"links":[null]}]}]}]}'],
  ])("JSON: %s is 400, in JSON", async ([, body]) => {
    const response = await telemetry.post("traces", body, json);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      code: 3,
      message: expect.stringContaining("not an OTLP request in JSON") as unknown,
    });
  });

  test.for<[string, Record<string, string>, RegExp]>([
    ["another content type", { "content-type": "text/plain" }, /content type is \S*text\/plain/],
    ["no content type", { "content-type": "" }, /content type is \\"\\";/],
    ["another content encoding", { ...protobuf, "content-encoding": "br" }, /content encoding is .*br/],
    ["gzip that is none", { ...protobuf, "content-encoding": "gzip" }, /not gzip/],
  ])("%s is 400", async ([, headers, message]) => {
    const response = await telemetry.post("traces", new Uint8Array(whole), headers);
    expect(response.status).toBe(400);
    expect(await response.text()).toMatch(message);
  });

  test("other paths and methods are 404", async () => {
    expect((await fetch(telemetry.otlpHttpUrl("traces"))).status).toBe(404);
    expect((await fetch(`${telemetry.otlpHttpUrl("traces")}/x`, { method: "POST" })).status).toBe(404);
  });

  test("a body at the limit is taken, one over it and a gzip bomb are 413 and RESOURCE_EXHAUSTED, and cost little memory", async () => {
    const limit = 4_194_304;
    // Field 9 is unknown and skipped: a length of four bytes, and the rest.
    const padded = (bytes: number): Buffer => field(0x4a, Buffer.alloc(bytes - 5));
    expect(padded(limit).length).toBe(limit);
    expect((await telemetry.post("traces", new Uint8Array(padded(limit)), protobuf)).status).toBe(200);
    expect(
      (await telemetry.post("traces", new Uint8Array(gzipSync(padded(limit))), { ...protobuf, "content-encoding": "gzip" })).status,
    ).toBe(200);
    expect((await telemetry.post("traces", new Uint8Array(padded(limit + 1)), protobuf)).status).toBe(413);
    expect(
      (await telemetry.post("traces", new Uint8Array(gzipSync(padded(limit + 1))), { ...protobuf, "content-encoding": "gzip" }))
        .status,
    ).toBe(413);
    const bomb = Buffer.alloc(96 * 1024 * 1024);
    const packed = new Uint8Array(gzipSync(bomb, { level: 1 }));
    const before = await telemetry.metric('process_memory_usage_bytes{kind="rss"');
    for (let attempt = 0; attempt < 2; attempt += 1) {
      expect((await telemetry.post("traces", packed, { ...protobuf, "content-encoding": "gzip" })).status).toBe(413);
    }
    const gzip = { "grpc.default_compression_algorithm": compressionAlgorithms.gzip };
    const Client = makeClientConstructor(TraceServiceService, "TraceService");
    const client = new Client(telemetry.otlpGrpcUrl.replace("http://", ""), ChannelCredentials.createInsecure(), gzip);
    const { path, responseDeserialize } = TraceServiceService.export;
    const refused = new Promise((_resolve, reject) =>
      client.makeUnaryRequest(
        path,
        (bytes: Buffer) => bytes,
        responseDeserialize,
        bomb,
        (error) => reject(error ?? new Error("it was taken")),
      ),
    );
    await expect(refused).rejects.toMatchObject({ code: 8 });
    client.close();
    expect((await telemetry.metric('process_memory_usage_bytes{kind="rss"')) - before).toBeLessThan(80 * 1024 * 1024);
    await expect(exportBytes(padded(limit + 1))).rejects.toMatchObject({ code: 3 });
  });
});

describe("what is stored", () => {
  test("is stored once when the same request comes twice, and each of two equal records in one", async () => {
    const traceId = newTraceId();
    const spans = traceRequest("shop", [
      span({ traceId, links: [{ traceId: newTraceId(), spanId: newSpanId() }] }),
      span({ traceId }),
    ]);
    const record = logRecord(Date.now() - 10_000, "tick", { owner: "prj_twice" });
    const logs = logRequest("shop", [record, record]);
    for (let time = 0; time < 2; time += 1) {
      await exportBytes(spans);
      expect((await telemetry.post("logs", new Uint8Array(logs), protobuf)).status).toBe(200);
      await telemetry.settled();
    }
    expect([await storedSpans(traceId), await storedLogs("prj_twice"), await droppedItems()]).toEqual([2, 2, 0]);
  });

  test.for<[string, string]>([
    ["NUL", "a\0b"],
    ["a lone surrogate", "a\ud800b"],
    ["four-byte characters", "🦜".repeat(4_000)],
    ["the text of an escape", String.raw`a\u0000b`],
  ])("holds %s in every text, and harms no neighbour", async ([name, text]) => {
    const [traceId, owner] = [newTraceId(), `prj_${name.replaceAll(" ", "_")}`];
    const odd = {
      ...span({ traceId, name: text, attributes: { [text.slice(0, 50)]: text, owner } }),
      status: { code: 2, message: text },
    };
    await exportBytes(traceRequest(text, [odd, span({ traceId })]));
    const records = [
      logRecord(Date.now() - 10_000, text, { owner, context: "/a", text }),
      logRecord(Date.now() - 9_000, "neighbour", { owner }),
    ];
    await telemetry.post("logs", new Uint8Array(logRequest(text, records)), protobuf);
    await telemetry.settled();
    const { spans } = await ingress.getTrace({ owner, traceId });
    expect(spans).toHaveLength(2);
    for (const { attributes } of spans) expect(() => JSON.parse(attributes) as unknown).not.toThrow();
    const { records: listed } = await ingress.listLogs({ owner, path: "", sinceUs: 0n, pageToken: "", pageSize: 0 });
    expect(listed).toHaveLength(2);
  });
});

describe("who may ask, and for what", () => {
  const [a, b, mixed] = [newTraceId(), newTraceId(), newTraceId()];
  const [rootOfA, spanOfB, rootOfMixed, partOfA] = [newSpanId(), newSpanId(), newSpanId(), newSpanId()];
  beforeAll(async () => {
    const spans = [
      span({ traceId: a, spanId: rootOfA, name: "edge" }),
      span({ traceId: a, parentSpanId: rootOfA, name: "append", attributes: { owner: "prj_a" } }),
      span({
        traceId: b,
        spanId: spanOfB,
        name: "deliver",
        attributes: { "iterate.owner": "prj_b" },
        links: [{ traceId: a, spanId: rootOfA }],
      }),
      span({ traceId: mixed, spanId: rootOfMixed, name: "sweep" }),
      span({ traceId: mixed, spanId: partOfA, parentSpanId: rootOfMixed, name: "of a", attributes: { owner: "prj_a" } }),
      span({ traceId: mixed, parentSpanId: partOfA, name: "below a" }),
      span({ traceId: mixed, parentSpanId: rootOfMixed, name: "of b", attributes: { owner: "prj_b" } }),
    ];
    await exportBytes(traceRequest("shop", spans));
    const at = Date.now() - 10_000;
    await telemetry.post(
      "logs",
      new Uint8Array(
        logRequest("shop", [
          logRecord(at, "for a", { owner: "prj_a" }),
          logRecord(at, "for b", { owner: "prj_b" }),
          logRecord(at, "for nobody"),
        ]),
      ),
      protobuf,
    );
    await telemetry.settled();
  });
  const names = async (owner: string, traceId: string): Promise<string[]> =>
    (await ingress.getTrace({ owner, traceId })).spans.map(({ name }) => name).sort();

  test("a project sees its traces and nothing of another's, by trace id too", async () => {
    expect(await names("prj_a", a)).toEqual(["append", "edge"]);
    await expect(ingress.getTrace({ owner: "prj_a", traceId: b })).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await names("prj_a", mixed)).toEqual(["below a", "of a"]);
    expect(await names("prj_b", mixed)).toEqual(["of b"]);
    await expect(ingress.getTrace({ owner: "prj_c", traceId: mixed })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("links are followed backwards, within what the asker may see", async () => {
    expect((await ingress.getTrace({ owner: "", traceId: a })).linkedFrom).toEqual([{ traceId: b, spanId: spanOfB }]);
    expect((await ingress.getTrace({ owner: "prj_a", traceId: a })).linkedFrom).toEqual([]);
    // B is linked to A's trace: it knows that of itself, and sees nothing of A.
    expect(await ingress.getTrace({ owner: "prj_b", traceId: a })).toEqual({
      spans: [],
      linkedFrom: [{ traceId: b, spanId: spanOfB }],
      truncated: false,
    });
  });

  test("an operator sees all of a trace", async () => {
    expect(await names("", mixed)).toEqual(["below a", "of a", "of b", "sweep"]);
  });

  test("logs are those of one project", async () => {
    const ask = { path: "", sinceUs: 0n, pageToken: "", pageSize: 0 };
    expect((await ingress.listLogs({ ...ask, owner: "prj_a" })).records.map(({ body }) => body)).toEqual(["for a"]);
    expect((await ingress.listLogs({ ...ask, owner: "prj_c" })).records).toEqual([]);
    await expect(ingress.listLogs({ ...ask, owner: "" })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    // A token of another's answer moves the place, never the owner.
    const { nextPageToken } = await ingress.listLogs({ ...ask, owner: "prj_b" });
    expect(
      (await ingress.listLogs({ ...ask, owner: "prj_a", pageToken: nextPageToken })).records.every(({ body }) => body === "for a"),
    ).toBe(true);
  });

  test("only ingress may ask", async () => {
    await expect(telemetry.as("runner").getTrace({ owner: "", traceId: a })).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(
      telemetry.as("runner").listLogs({ owner: "prj_a", path: "", sinceUs: 0n, pageToken: "", pageSize: 0 }),
    ).rejects.toMatchObject({ code: "FORBIDDEN" });
  });
});

describe("without its database", () => {
  test("it takes what memory allows, then tells senders to wait, and stores all of it later", async () => {
    await telemetry.settled();
    proxy.refuse();
    proxy.reset();
    const traceId = newTraceId();
    const waiting = 'iterate_telemetry_queue_bytes{signal="traces"';
    const big = { text: "x".repeat(4_000), more: "y".repeat(4_000) };
    const requests = Array.from({ length: 30 }, () =>
      traceRequest(
        "shop",
        Array.from({ length: 50 }, () => span({ traceId, attributes: big })),
      ),
    );
    let taken = 0;
    let refusal: ServiceError | undefined;
    for (const request of requests) {
      try {
        await exportBytes(request);
        taken += 1;
      } catch (error) {
        refusal = error as ServiceError;
        break;
      }
    }
    expect(taken).toBeGreaterThan(10);
    expect(refusal).toMatchObject({ code: 8 });
    const details = Status.decode(refusal!.metadata.get("grpc-status-details-bin")[0] as Buffer).details;
    const retry = details.find(({ typeUrl }) => typeUrl.endsWith("google.rpc.RetryInfo"));
    expect(RetryInfo.decode(retry!.value).retryDelay).toEqual({ seconds: 1n, nanos: 0 });
    const overHttp = await telemetry.post("traces", new Uint8Array(requests[0]!), protobuf);
    expect([overHttp.status, overHttp.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(Status.decode(await overHttp.bytes())).toMatchObject({ code: 8 });
    expect(await telemetry.metric(waiting)).toBeLessThanOrEqual(8_388_608 + requests[0]!.length);
    // Logs have room of their own.
    expect(
      (
        await telemetry.post(
          "logs",
          new Uint8Array(logRequest("shop", [logRecord(Date.now(), "meanwhile", { owner: "prj_away" })])),
          protobuf,
        )
      ).status,
    ).toBe(200);
    expect(await storedSpans(traceId)).toBe(0);

    await proxy.heal();
    await eventually(async () => (await storedSpans(traceId)) === taken * 50, { timeoutMs: 20_000 });
    expect(await storedLogs("prj_away")).toBe(1);
    expect(await telemetry.metric('iterate_telemetry_items_dropped_total{signal="traces"')).toBe(0);
    expect(await exportBytes(requests.at(-1)!)).toEqual({ partialSuccess: undefined });
  });

  test("a connection cut in the middle of a statement stores its rows once", async () => {
    await telemetry.settled();
    // The statement is prepared on new connections alone, and its text seen there.
    proxy.reset();
    const cut = proxy.cutAtAnswer({ afterClientText: "insert into span " });
    const traceId = newTraceId();
    await exportBytes(traceRequest("shop", [span({ traceId }), span({ traceId })]));
    await cut;
    await telemetry.settled();
    expect([await storedSpans(traceId), await droppedItems()]).toEqual([2, 0]);
  });
});

test("an end in order stores what waits; the next process goes on", async () => {
  const other = await TelemetryProcess.start({ deployment, databaseUrl: database.url });
  const traceId = newTraceId();
  const response = await other.post("traces", new Uint8Array(traceRequest("shop", [span({ traceId })])), protobuf);
  expect(response.status).toBe(200);
  expect((await other.stop()).code).toBe(0);
  expect(await storedSpans(traceId)).toBe(1);
});
