/** The isolate role as the runner meets it, over real gRPC and HTTP. */
import { once } from "node:events";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { IsolateServiceClient } from "@iterate-platform/proto/iterate/runner/v1/isolate";
import { createClient } from "@iterate-platform/service/grpc-client";
import { eventually } from "@iterate-platform/testing";
import { codedError } from "iterate/lib";
import { request } from "undici";
import type { BatchInvocation, IsolateBundle, IsolateHost, ProjectRequest } from "./client.js";
import { bundleOf, processorBundle } from "./isolate.fixture.js";
import { sdkBundle } from "./sdk-bundle.fixture.js";
import { held, invocationOf, startRole, type TestRole } from "./role.fixture.js";

let role: TestRole;
beforeAll(async () => {
  role = await startRole({ loopMs: 400 });
});
afterAll(() => role.stop());

const silent: IsolateHost = { hostCall: async () => null };
async function answers<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of source) all.push(item);
  return all;
}
function batchOf(bundle: IsolateBundle, input: unknown = {}, more: Partial<BatchInvocation> = {}): BatchInvocation {
  return { ...invocationOf(bundle), module: "main.js", className: "P", input, ...more };
}
const get = (path = "/"): ProjectRequest => ({ method: "GET", url: `http://shop.example${path}`, headers: [] });
const checkpoint = `yield { kind: "checkpoint", version: "1", offset: 1, state: null, emits: [], backgroundCount: 0 };`;
const settled = `yield { kind: "settled", failures: [] };`;

describe("a batch through the SDK's own classes", () => {
  const events = (...blobs: string[]) =>
    blobs.map((blob, i) => ({
      offset: i + 1,
      type: "blob",
      payload: { blob },
      createdAt: "2026-01-01T00:00:00Z",
      path: "/a",
      source: { origin: "/a", cause: { chain: "c", depth: 0 } },
    }));
  const input = (...blobs: string[]) => ({
    contextPath: "/a",
    name: "hoarder",
    checkpoint: null,
    events: events(...blobs),
    range: { after: 0, through: blobs.length },
    atHead: true,
  });
  const batch = async (...blobs: string[]) =>
    batchOf(held(await sdkBundle()), input(...blobs), { className: "HoarderDurableObject" });

  test("answers the checkpoint with its emits, then settled", async () => {
    const [first, second] = await answers(role.client.processBatch(await batch("x", "y"), silent));
    expect(first).toMatchObject({
      kind: "checkpoint",
      version: "1.0.0",
      offset: 2,
      state: { blobs: ["x", "y"] },
      emits: [{ type: "hoarded", payload: { blob: "x" } }, { type: "hoarded" }],
    });
    expect(second).toEqual({ kind: "settled", failures: [] });
  });

  test("appends through the platform, whose refusals it sees with code and data", async () => {
    const calls: unknown[] = [];
    const host: IsolateHost = {
      hostCall: async (call) => (
        calls.push(call),
        Promise.reject(codedError("STREAM_PAUSED", "held by an operator", { since: 7 }))
      ),
    };
    await expect(answers(role.client.processBatch(await batch("append"), host))).rejects.toMatchObject({
      code: "STREAM_PAUSED",
      message: "held by an operator",
      data: { since: 7, killed: false, stack: expect.stringContaining("main.js:") },
    });
    expect(calls).toMatchObject([{ method: "append", path: "/a", args: [{ type: "noted" }] }]);
  });

  test("starts background work only once the checkpoint has been taken", async () => {
    const calls: string[] = [];
    const host: IsolateHost = { hostCall: async ({ method }) => (calls.push(method), []) };
    const running = role.client.processBatch(await batch("background"), host);
    expect((await running.next()).value).toMatchObject({ kind: "checkpoint", backgroundCount: 1 });
    // A round trip through the same process: work that had not waited would have called by now.
    await answers(role.client.processBatch(await batch("x"), host));
    expect(calls).toEqual([]);
    expect((await running.next()).value).toMatchObject({ kind: "settled" });
    expect(calls).toEqual(["append"]);
  });

  test("that throws persists nothing and carries its stack", async () => {
    await expect(answers(role.client.processBatch(await batch("throw"), silent))).rejects.toMatchObject({
      code: "CODE_FAILED",
      message: "this blob is refused",
      data: { killed: false, stack: expect.stringMatching(/processEvent \(main\.js:\d+/) },
    });
  });

  test("is described by its contract, and the default export constructs", async () => {
    const bundle = held(await sdkBundle());
    const description = await role.client.describe(invocationOf(bundle), silent);
    expect(description.entryPoint).toEqual({ isClass: true, hasFetch: true, hasProcessEvent: false });
    expect(description.exports).toContainEqual({
      module: "main.js",
      name: "HoarderDurableObject",
      kind: "processor",
      contract: expect.objectContaining({
        slug: "hoarder",
        version: "1.0.0",
        consumes: ["blob"],
        emits: ["hoarded", "noted"],
        stateSchema: expect.objectContaining({ type: "object" }),
        eventSchemas: { blob: expect.anything() },
      }),
    });
  });

  test("and its page reaches the platform through itx", async () => {
    const bundle = held(await sdkBundle());
    const calls: unknown[] = [];
    const host: IsolateHost = {
      hostCall: async (call) => (
        calls.push([call.method, call.path]),
        call.method === "whoami" ? { path: call.path } : { events: [], scannedThroughOffset: 0, atHead: true }
      ),
    };
    const response = await role.client.fetch(invocationOf(bundle), get(), host);
    expect(JSON.parse(await text(response.body))).toMatchObject({ path: "/a", caller: "/b", method: "GET" });
    expect(calls).toEqual([
      ["whoami", "/a"],
      ["readEvents", "/a/agents"],
    ]);
    await response.done;
  });
});

describe("bundles", () => {
  test("are sent once however many ask at once, and start one process", async () => {
    const bundle = held(processorBundle(`${checkpoint} ${settled}`));
    const before = role.pids.length;
    await Promise.all([1, 2, 3, 4].map(() => role.client.ensure(bundle)));
    await Promise.all([1, 2, 3].map(() => answers(role.client.processBatch(batchOf(bundle), silent))));
    expect(bundle.reads).toBe(1);
    expect(role.pids.length).toBe(before + 1);
  });

  test("travel in pieces, of every kind, and an empty module is a module", async () => {
    const text = "x".repeat(2_500_000);
    const source =
      bundleOf(`import big from "./big.txt"; import data from "./d.json"; import bytes from "./b.bin"; import "./empty.js"; import wasm from "./w.wasm";
      export class P { async *processEventBatch() { yield { kind: "checkpoint", version: "1", offset: 1, state: [big.length, data.a, bytes.byteLength, wasm instanceof WebAssembly.Module], emits: [], backgroundCount: 0 }; ${settled} } }`);
    const more = [
      { name: "big.txt", kind: "text" as const, data: Buffer.from(text) },
      { name: "d.json", kind: "json" as const, data: Buffer.from('{"a":7}') },
      { name: "b.bin", kind: "data" as const, data: Buffer.from([1, 2, 3]) },
      { name: "empty.js", kind: "esModule" as const, data: Buffer.alloc(0) },
      { name: "w.wasm", kind: "wasm" as const, data: Buffer.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]) },
    ];
    const [first] = await answers(
      role.client.processBatch(batchOf(held({ ...source, modules: [...source.modules, ...more] })), silent),
    );
    expect(first).toMatchObject({ state: [2_500_000, 7, 3, true] });
  });

  test("that do not load are ISOLATE_START in workerd's words, for Ensure and for an invocation", async () => {
    const bundle = held(bundleOf("import './nope.js';"));
    const expected = { code: "ISOLATE_START", message: 'Error: No such module "nope.js".\n  imported from "main.js"' };
    await expect(role.client.ensure(bundle)).rejects.toMatchObject(expected);
    await expect(role.client.describe(invocationOf(bundle), silent)).rejects.toMatchObject(expected);
  });

  test("with a name that leaves the folder are refused", async () => {
    const source = bundleOf("");
    const bundle = held({
      ...source,
      modules: [...source.modules, { name: "../../x.js", kind: "esModule", data: Buffer.from("") }],
    });
    await expect(role.client.ensure(bundle)).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });
});

describe("an invocation", () => {
  test("that is killed says so, and the next one runs in a new process", async () => {
    const bundle = held(processorBundle(`if (input.loop) { console.warn("here I go"); for (;;); } ${checkpoint} ${settled}`));
    const logs: unknown[] = [];
    class Recorder implements IsolateHost {
      hostCall(): Promise<unknown> {
        return Promise.resolve(null);
      }
      log(record: unknown): void {
        logs.push(record);
      }
    }
    await expect(answers(role.client.processBatch(batchOf(bundle, { loop: true }), new Recorder()))).rejects.toMatchObject({
      code: "ISOLATE_CPU",
      data: { killed: true, alone: true },
    });
    expect(logs).toMatchObject([{ level: "warn", message: "here I go", atUs: expect.any(Number) }]);
    expect(await answers(role.client.processBatch(batchOf(bundle), silent))).toHaveLength(2);
    expect(bundle.reads).toBe(1);
  });

  test("in quarantine has a process of its own, which ends with it and leaves the shared one alone", async () => {
    const bundle = held(
      processorBundle(
        `globalThis.seen = (globalThis.seen ?? 0) + 1; if (input.loop) for (;;); yield { kind: "checkpoint", version: "1", offset: 1, state: seen, emits: [], backgroundCount: 0 }; ${settled}`,
      ),
    );
    const stateOf = async (more: Partial<BatchInvocation> = {}) =>
      (await answers(role.client.processBatch(batchOf(bundle, {}, more), silent)))[0];
    expect(await stateOf()).toMatchObject({ state: 1 });
    expect(await stateOf({ quarantine: true })).toMatchObject({ state: 1 });
    const alone = role.pids.at(-1)!;
    await eventually(() => expect(() => process.kill(alone, 0)).toThrow());
    await expect(
      answers(role.client.processBatch(batchOf(bundle, { loop: true }, { quarantine: true }), silent)),
    ).rejects.toMatchObject({ code: "ISOLATE_CPU" });
    expect(await stateOf()).toMatchObject({ state: 2 });
  });

  test("that its caller cancels is stopped, and its host calls are given up", async () => {
    const bundle = held(processorBundle(`await itx().hostCall("wait", [], "/"); ${settled}`));
    const abort = new AbortController();
    let givenUp: unknown;
    const host: IsolateHost = {
      hostCall: (_call, signal) => {
        signal.addEventListener("abort", () => {
          givenUp = signal.reason;
        });
        setTimeout(() => abort.abort());
        return new Promise(() => {});
      },
    };
    await expect(answers(role.client.processBatch(batchOf(bundle, {}, { signal: abort.signal }), host))).rejects.toMatchObject({
      code: "CANCELLED",
    });
    expect(givenUp).toMatchObject({ code: "CANCELLED" });
  });

  test.each([
    ["a frame of another shape", `yield { kind: "checkpoint", offset: "1" };`],
    ["settled before a checkpoint", settled],
    ["two checkpoints", `${checkpoint} ${checkpoint}`],
    ["no settled", checkpoint],
    ["nothing", ""],
  ])("that answers %s is ISOLATE_OUTPUT", async (_what, body) => {
    await expect(answers(role.client.processBatch(batchOf(held(processorBundle(body))), silent))).rejects.toMatchObject({
      code: "ISOLATE_OUTPUT",
    });
  });

  test("sees nothing of a failure of the platform that carries no code", async () => {
    const bundle = held(
      processorBundle(
        `try { await itx().hostCall("m", [], "/") } catch (error) { yield { kind: "checkpoint", version: "1", offset: 1, state: [error.code, error.message], emits: [], backgroundCount: 0 }; } ${settled}`,
      ),
    );
    const host: IsolateHost = { hostCall: async () => Promise.reject(new Error("password=hunter2 at /srv/x.ts")) };
    expect((await answers(role.client.processBatch(batchOf(bundle), host)))[0]).toMatchObject({
      state: ["INTERNAL", "m failed for a reason of the platform."],
    });
  });
});

describe("an HTTP request", () => {
  const page = held(
    bundleOf(`export default class {
      async fetch(request) {
        const url = new URL(request.url);
        switch (url.pathname) {
          case "/echo": return new Response(request.body, { status: 201, headers: [["x-method", request.method], ["x-url", request.url], ["x-auth", request.headers.get("authorization") ?? "none"], ["x-internal", [...request.headers.keys()].filter((k) => k.startsWith("x-iterate")).join()], ["set-cookie", "a=1"], ["set-cookie", "b=2"], ["x-iterate-outcome", "threw"]] });
          case "/throw": throw Object.assign(new Error("no page today"), { code: "FORBIDDEN" });
          case "/text": return "text";
          case "/loop": for (;;);
          case "/half": { /* The loop begins once the first half is out. */ let sent = 0; return new Response(new ReadableStream({ async pull(c) { if (sent++ === 0) return c.enqueue(new TextEncoder().encode("half")); await new Promise((resolve) => setTimeout(resolve, 200)); for (;;); } })); }
          case "/endless": { globalThis.pulled = 0; globalThis.cancelled = false; return new Response(new ReadableStream({ pull(c) { globalThis.pulled++; c.enqueue(new Uint8Array(65536)); }, cancel() { globalThis.cancelled = true; } })); }
          case "/seen": return Response.json({ pulled: globalThis.pulled, cancelled: globalThis.cancelled });
          case "/log": console.log("from the page"); return new Response(null, { status: 204 });
          default: return new Response("hi");
        }
      } }`),
  );
  const fetchPage = (path: string, host: IsolateHost = silent) => role.client.fetch(invocationOf(page), get(path), host);

  test("reaches the project's fetch as it was sent, and bodies stream both ways", async () => {
    const upload = new Readable({ read() {} });
    const sent: ProjectRequest = {
      method: "POST",
      url: "https://shop.example/echo?a=1",
      headers: [
        ["authorization", "Bearer user"],
        ["x-iterate-invocation", "forged"],
        ["x-iterate-operation", "describe"],
        ["connection", "close"],
      ],
      body: upload,
    };
    const pending = role.client.fetch(invocationOf(page), sent, silent);
    upload.push("first ");
    const response = await pending;
    expect(response.status).toBe(201);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "x-method": "POST",
      "x-url": "https://shop.example/echo?a=1",
      "x-auth": "Bearer user",
      "x-internal": "",
    });
    expect(response.headers.filter(([name]) => name === "set-cookie")).toEqual([
      ["set-cookie", "a=1"],
      ["set-cookie", "b=2"],
    ]);
    expect(response.headers.map(([name]) => name)).not.toContain("x-iterate-outcome");
    const [first] = (await once(response.body, "data")) as [Buffer];
    expect(String(first)).toBe("first ");
    upload.push("second");
    upload.push(null);
    expect(await text(response.body)).toBe("second");
    await response.done;
  });

  test("that the code fails is the code's failure, with records and stack", async () => {
    await expect(fetchPage("/throw")).rejects.toMatchObject({
      code: "FORBIDDEN",
      message: "no page today",
      data: { killed: false, stack: expect.stringContaining("main.js:") },
    });
    await expect(fetchPage("/text")).rejects.toMatchObject({
      code: "CODE_FAILED",
      message: "TypeError: fetch did not return a Response.",
    });
    const logs: unknown[] = [];
    const response = await fetchPage("/log", { ...silent, log: (record) => logs.push(record) });
    response.body.resume();
    await response.done;
    expect(response.status).toBe(204);
    expect(logs).toMatchObject([{ level: "info", message: "from the page" }]);
  });

  test("that the code loops on, before or in the middle of its body, is ISOLATE_CPU", async () => {
    await expect(fetchPage("/loop")).rejects.toMatchObject({ code: "ISOLATE_CPU", data: { killed: true } });
    const response = await fetchPage("/half");
    await expect(text(response.body)).rejects.toThrow();
    await expect(response.done).rejects.toMatchObject({ code: "ISOLATE_CPU" });
  });

  test("that its client reads slowly slows the code, and that its client leaves stops it", async () => {
    const response = await fetchPage("/endless");
    response.done.catch(() => undefined);
    await once(response.body, "readable");
    const seen = async () => JSON.parse(await text((await fetchPage("/seen")).body)) as { pulled: number; cancelled: boolean };
    // Buffers of sockets and streams on the way fill up; then the code is asked for no more.
    let last = -1;
    const full = await eventually(async () => {
      const { pulled } = await seen();
      const isFull = pulled === last;
      last = pulled;
      return isFull ? pulled : undefined;
    });
    expect(full).toBeLessThan(400);
    response.body.destroy();
    await eventually(async () => (await seen()).cancelled);
    await expect(response.done).rejects.toMatchObject({ code: "CANCELLED" });
  });

  test("without a token, with another service's, or under a guessed ticket is refused", async () => {
    const send = async (headers: Record<string, string>) => {
      const answer = await request(role.httpUrl, { headers: { "x-iterate-invocation": "guess", ...headers } });
      return [answer.statusCode, ((await answer.body.json()) as { code: string }).code];
    };
    expect(await send({})).toEqual([502, "UNAUTHENTICATED"]);
    expect(await send(await (await role.trustOf("bundler")).headers("runner-isolate"))).toEqual([502, "FORBIDDEN"]);
    expect(await send(await (await role.trustOf("runner")).headers("runner-isolate"))).toEqual([502, "NOT_FOUND"]);
  });
});

test("no other service and no person may call", async () => {
  const trust = await role.trustOf("bundler");
  const client = createClient(IsolateServiceClient, role.grpcUrl, { trust, audience: "runner-isolate" });
  await expect(answers(client.invoke().responses)).rejects.toMatchObject({ code: "FORBIDDEN" });
  client.close();
  const asPerson = createClient(IsolateServiceClient, role.grpcUrl, {
    trust: await role.trustOf("runner"),
    audience: "runner-isolate",
  });
  await expect(answers(asPerson.ensure({ principal: "usr_1" }).responses)).rejects.toMatchObject({ code: "FORBIDDEN" });
  asPerson.close();
});
