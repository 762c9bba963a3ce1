import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { hostListener } from "./host-listener.js";
import { Invocation, type HostCall } from "./invocation.js";
import { isolateLimits } from "./limits.js";

const limits = { ...isolateLimits, hostCallBytes: 1_000, hostCallTotalBytes: 2_000, hostCallsInFlight: 2 };
let folder: string;
let server: Server;
let invocation: Invocation;
let calls: HostCall[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "iterate-host-"));
  calls = [];
  const sink = { hostCall: (call: HostCall) => void calls.push(call), log: () => undefined, frame: () => undefined };
  invocation = new Invocation({ id: "inv_1", ordinal: 1, limits: { deadlineMs: 10_000, hostCalls: 100 }, table: limits, sink });
  server = hostListener({
    token: "process-token",
    limits,
    invocation: (secret) => (secret === invocation.secret ? invocation : undefined),
  });
  await once(server.listen(join(folder, "s")), "listening");
});
afterEach(() => {
  invocation.end();
  server.close();
  server.closeAllConnections();
  rmSync(folder, { recursive: true });
});

function dial(headers: Record<string, string>): WebSocket {
  const socket = new WebSocket(`ws+unix://${join(folder, "s")}:/itx`, { headers });
  socket.on("error", () => undefined);
  return socket;
}
const honest = () => ({ authorization: "Bearer process-token", "x-iterate-invocation": invocation.secret });
async function refusalOf(socket: WebSocket): Promise<string> {
  const [, response] = (await once(socket, "unexpected-response")) as [unknown, NodeJS.ReadableStream & { statusCode: number }];
  const chunks: string[] = [];
  for await (const chunk of response) chunks.push(String(chunk));
  return `${response.statusCode} ${chunks.join("")}`;
}
const message = (id: unknown, args: string, method: unknown = "m", path: unknown = "/") =>
  `${JSON.stringify([id, method, path])}\n${args}`;

test.each([
  ["no token", { authorization: "" }],
  ["another process's token", { authorization: "Bearer other-token!!" }],
  ["a token of another length", { authorization: "Bearer x" }],
])("a session with %s is refused", async (_what, forged) => {
  expect(await refusalOf(dial({ ...honest(), ...forged }))).toBe("403 This session does not come from the process it claims.");
});

test("a session for an invocation that is not open here, or is over, is refused", async () => {
  expect(await refusalOf(dial({ ...honest(), "x-iterate-invocation": "guess" }))).toMatch(
    /^403 The invocation is over, or never was/,
  );
});

test("an invocation has one session, and its end closes it", async () => {
  const first = dial(honest());
  await once(first, "open");
  const second = dial(honest());
  const [code, reason] = (await once(second, "close")) as [number, Buffer];
  expect([code, String(reason)]).toEqual([4000, "The invocation has its session already, or is over."]);
  invocation.end();
  expect(((await once(first, "close")) as [number])[0]).toBe(4000);
});

test("a call arrives with its bytes unread and its reply goes back under the isolate's own number", async () => {
  const socket = dial(honest());
  await once(socket, "open");
  socket.send(message(77, "[1, 2.50]"));
  const reply = once(socket, "message");
  await expect.poll(() => calls.length).toBe(1);
  expect(calls[0]).toMatchObject({ callId: 1, method: "m", path: "/" });
  expect(Buffer.from(calls[0]!.args).toString()).toBe("[1, 2.50]");
  invocation.reply({ callId: 1, succeeded: true, body: Buffer.from('{"a":1}') });
  invocation.reply({ callId: 1, succeeded: true, body: Buffer.from("again") });
  expect(String((await reply)[0])).toBe('[77,true]\n{"a":1}');
});

test("no more calls are read than may await a reply", async () => {
  const socket = dial(honest());
  await once(socket, "open");
  for (let id = 1; id <= 5; id++) socket.send(message(id, "[]"));
  await expect.poll(() => calls.length).toBeGreaterThanOrEqual(2);
  const seen = calls.length;
  for (let id = 1; id <= 5; id++) invocation.reply({ callId: id, succeeded: true, body: Buffer.from("null") });
  await expect
    .poll(
      () => (
        calls.slice(seen).forEach(({ callId }) => invocation.reply({ callId, succeeded: true, body: Buffer.from("null") })),
        calls.length
      ),
    )
    .toBe(5);
});

test.each([
  ["no head", "no newline"],
  ["a head that is no JSON", "{\n[]"],
  ["a head of another shape", '{"id":1}\n[]'],
  ["a number that is none", message("1", "[]")],
  ["an unsafe number", '[9007199254740993,"m","/"]\n[]'],
  ["a method that is no text", message(1, "[]", 7)],
  ["a method of 101 characters", message(1, "[]", "m".repeat(101))],
  ["a path of 1,025 bytes", message(1, "[]", "m", "/".repeat(1_025))],
  ["1,001 bytes of arguments", message(1, "x".repeat(1_001))],
  ["a message over every bound", "x".repeat(50_000)],
])("a message with %s ends the invocation as ISOLATE_OUTPUT", async (_what, text) => {
  const socket = dial(honest());
  await once(socket, "open");
  socket.send(text);
  await once(socket, "close");
  expect(invocation.signal.reason).toMatchObject({ code: "ISOLATE_OUTPUT" });
  expect(calls).toEqual([]);
});

test("1,000 bytes of arguments pass, and 2,001 in all end the invocation as QUOTA", async () => {
  const socket = dial(honest());
  await once(socket, "open");
  for (const bytes of [1_000, 1_000, 1]) {
    socket.send(message(1, "x".repeat(bytes)));
    const before = calls.length;
    await expect.poll(() => calls.length > before || invocation.signal.aborted).toBe(true);
    if (calls.length > before) invocation.reply({ callId: calls.length, succeeded: true, body: Buffer.from("null") });
  }
  expect(calls).toHaveLength(2);
  expect(invocation.signal.reason).toMatchObject({ code: "QUOTA" });
});

test("bytes that are no UTF-8 end the invocation", async () => {
  const socket = dial(honest());
  await once(socket, "open");
  socket.send(Buffer.from([0x5b, 0xff, 0x0a]), { binary: false });
  await once(socket, "close");
  expect(invocation.signal.reason).toMatchObject({ code: "ISOLATE_OUTPUT" });
});
