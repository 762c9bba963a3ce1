import { afterAll, beforeAll, expect, test } from "vitest";
import { once } from "node:events";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { bundleOf, processorBundle } from "./fixture.js";
import type { IsolateHost } from "./client.js";
import { held, invocationOf, startRole, type TestRole } from "./service-fixture.js";

let role: TestRole;
beforeAll(async () => {
  role = await startRole({ limits: { loopMs: 600 } });
});
afterAll(() => role.stop());

const silent: IsolateHost = { hostCall: async () => null };
async function answers<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of source) all.push(item);
  return all;
}
const checkpoint = (state: string) => `yield { kind: "checkpoint", version: "1", offset: input.offset, state: ${state}, emits: [], backgroundCount: 0 };`;
const settled = `yield { kind: "settled", failures: [] };`;

test("a batch goes out over gRPC and its checkpoint and settled come back parsed", async () => {
  const bundle = held(processorBundle(`const reply = await itx().hostCall("append", [{ type: "x" }], "/a"); ${checkpoint("reply")} ${settled}`));
  const calls: unknown[] = [];
  const host: IsolateHost = { hostCall: async (call) => (calls.push(call), { offset: 7 }) };
  const batch = { ...invocationOf(bundle), module: "main.js", className: "P", input: { offset: 7 } };
  expect(await answers(role.client.processBatch(batch, host))).toEqual([
    { kind: "checkpoint", version: "1", offset: 7, state: { offset: 7 }, emits: [], backgroundCount: 0 },
    { kind: "settled", failures: [] },
  ]);
  expect(calls).toEqual([{ method: "append", path: "/a", args: [{ type: "x" }] }]);
  expect(bundle.reads).toBe(1);
});

test("an HTTP request reaches the project's fetch, and bodies stream both ways", async () => {
  const bundle = held(
    bundleOf(`export default class { async fetch(request) {
      if (new URL(request.url).pathname === "/echo") return new Response(request.body, { status: 201, headers: { "x-method": request.method, "x-url": request.url, "x-auth": request.headers.get("authorization") ?? "none", "x-internal": [...request.headers.keys()].filter((k) => k.startsWith("x-iterate")).join() } });
      return new Response("hi");
    } }`),
  );
  const upload = new Readable({ read() {} });
  const request = { method: "POST", url: "https://shop.example/echo?a=1", headers: [["authorization", "Bearer user"], ["x-iterate-invocation", "forged"], ["x-iterate-operation", "describe"]] as [string, string][], body: upload };
  const pending = role.client.fetch(invocationOf(bundle), request, silent);
  upload.push("first ");
  const response = await pending;
  expect(response.status).toBe(201);
  expect(Object.fromEntries(response.headers)).toMatchObject({ "x-method": "POST", "x-url": "https://shop.example/echo?a=1", "x-auth": "Bearer user", "x-internal": "" });
  const [firstChunk] = (await once(response.body, "data")) as [Buffer];
  expect(String(firstChunk)).toBe("first ");
  upload.push("second");
  upload.push(null);
  expect(await text(response.body)).toBe("second");
  await response.done;
});
