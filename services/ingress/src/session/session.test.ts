import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { newWebSocketRpcSession, type RpcStub } from "capnweb";
import { codedError } from "iterate/lib";
import type { EventsFrame, IterateApi } from "iterate/api";
import { eventually } from "@iterate-platform/testing";
import { WebSocket } from "ws";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AdminToken } from "../identity/admin-token.js";
import type { Project } from "../project/contract.js";
import { maxSubscriptions, type SessionParts } from "./session-scope.js";
import { SessionSockets, type SessionSocketsOptions } from "./socket.js";

const token = "t".repeat(40);
const project: Project = { id: "prj_a", slug: "a", createdAt: new Date(0) };

/** The session over a log that answers by rule; the real log is behind it in the service's own suite. */
const parts = (overrides: object = {}): SessionParts =>
  ({
    projects: {
      get: async (name: string) => {
        if (name === "a") return project;
        throw codedError("NOT_FOUND", `there is no project ${JSON.stringify(name)}`);
      },
      list: async () => ({ projects: [project], next: null }),
      create: async () => project,
    },
    addresses: {
      project: (slug: string) => `http://p/${slug}`,
      git: (slug: string) => `http://g/${slug}`,
      webhook: () => "http://w",
    },
    headOffset: async () => 7,
    pause: async () => undefined,
    contextLog: (owner: string, path: string, principal: string) => ({
      append: async (events: object[]) =>
        events.map((event, index) => ({ ...event, offset: index + 1, path, source: { origin: "/", owner, principal } })),
      read: async () => ({ events: [], scannedThroughOffset: 0, atHead: true }),
      follow: async function* ({ afterOffset }: { afterOffset: number }) {
        yield { events: [], scannedThroughOffset: afterOffset + 1, atHead: true };
        throw codedError("UNAVAILABLE", "the context service went away");
      },
    }),
    ...overrides,
  }) as unknown as SessionParts;

let server: Server;
let sockets: SessionSockets;
let reported: unknown[];

async function serve(options: Partial<SessionSocketsOptions> = {}): Promise<string> {
  reported = [];
  sockets = new SessionSockets({
    parts: parts(),
    adminToken: new AdminToken(token),
    origin: "http://console.example",
    report: (error) => {
      reported.push(error);
      return "log-1";
    },
    ...options,
  });
  server = createServer();
  server.on("upgrade", (request, socket, head) => sockets.upgrade(request, socket, head));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/api`;
}

const opened: WebSocket[] = [];
function connect(url: string, headers: Record<string, string> = {}): { api: RpcStub<IterateApi>; socket: WebSocket } {
  const socket = new WebSocket(url, { headers });
  opened.push(socket);
  return { socket, api: newWebSocketRpcSession<IterateApi>(socket as unknown as globalThis.WebSocket) };
}
const closed = (socket: WebSocket) => new Promise<number>((resolve) => socket.once("close", (code) => resolve(code)));

beforeEach(() => {
  opened.length = 0;
});
afterEach(() => {
  for (const socket of opened) socket.terminate();
  sockets.close();
  server.close();
});

test("a socket without a credential holds authenticate and nothing else", async () => {
  const { api } = connect(await serve());
  const loose = api as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  for (const name of ["projects", "whoami", "context"]) await expect(loose[name]?.("a")).rejects.toThrow();
  await expect(loose["launch"]?.()).rejects.toMatchObject({
    code: "NOT_A_METHOD",
    message: expect.stringContaining("launch") as unknown,
  });
});

test("the right secret opens a session that says who it is", async () => {
  const { api } = connect(await serve());
  using session = await api.authenticate({ type: "admin-secret", secret: token });
  expect(await session.whoami()).toEqual({ kind: "admin", principal: "admin" });
  expect(await session.projects.list()).toMatchObject({ projects: [{ slug: "a", url: "http://p/a" }], next: null });
});

test("a wrong secret is refused with its code, and a socket has five tries", async () => {
  const { api } = connect(await serve());
  for (let attempt = 0; attempt < 5; attempt += 1) {
    await expect(api.authenticate({ type: "admin-secret", secret: "wrong" })).rejects.toMatchObject({
      code: "INVALID_CREDENTIALS",
    });
  }
  await expect(api.authenticate({ type: "admin-secret", secret: token })).rejects.toMatchObject({ code: "INVALID_CREDENTIALS" });
});

test.for([
  ["no argument", undefined],
  ["another kind", { type: "bearer", token }],
  ["a secret that is no text", { type: "admin-secret", secret: 5 }],
])("authenticate with %s is INVALID_INPUT", async ([, given]) => {
  const { api } = connect(await serve());
  await expect(api.authenticate(given as never)).rejects.toMatchObject({ code: "INVALID_INPUT" });
});

test("names a handle does not have, at every depth, are NOT_A_METHOD", async () => {
  const { api } = connect(await serve());
  using session = await api.authenticate({ type: "admin-secret", secret: token });
  using handle = await session.projects.get("a");
  const calls = [session, session.projects, handle, handle.webhooks] as unknown as Record<string, () => Promise<unknown>>[];
  for (const target of calls) await expect(target["eval"]?.()).rejects.toMatchObject({ code: "NOT_A_METHOD" });
});

test("an append carries the principal and drops a forged source", async () => {
  const { api } = connect(await serve());
  using session = await api.authenticate({ type: "admin-secret", secret: token });
  using handle = await session.projects.get("a");
  using inner = await handle.cd("x/../y");
  const [event] = await inner.append({ type: "t", payload: { a: 1 }, source: { processor: { slug: "s", version: "1" } } });
  expect(event).toMatchObject({ type: "t", path: "/y", source: { owner: "prj_a", principal: "admin" } });
});

test.for([
  ["append", [{ type: 5 }]],
  ["append", [{ type: "t", extra: 1 }]],
  ["append", [{ type: "t", ephemeral: "yes" }]],
  ["readEvents", [{ limit: 1001 }]],
  ["readEvents", [{ afterOffset: -1 }]],
  ["readEvents", [{ includeEphemeral: 1 }]],
  ["waitForEvent", [{}]],
  ["waitForEvent", [{ type: "a", types: ["b"] }]],
  ["waitForEvent", [{ type: "a", timeoutMs: 120_001 }]],
  ["subscribe", [5]],
  ["subscribe", [{ includeEphemeral: "all", onEvents: 1 }]],
  ["cd", [5]],
] as const)("%s with %j is INVALID_INPUT", async ([method, args]) => {
  const { api } = connect(await serve());
  using session = await api.authenticate({ type: "admin-secret", secret: token });
  using handle = await session.projects.get("a");
  const call = (handle as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>)[method];
  await expect(call?.(...args)).rejects.toMatchObject({ code: "INVALID_INPUT" });
});

test("a subscription starts after the head, goes on over a lost log, and ends with its dispose", async () => {
  const { api } = connect(await serve());
  using session = await api.authenticate({ type: "admin-secret", secret: token });
  using handle = await session.projects.get("a");
  const seen: number[] = [];
  const subscription = await handle.subscribe((frame: EventsFrame) => void seen.push(frame.scannedThroughOffset));
  await eventually(() => expect(seen.length).toBeGreaterThan(3));
  expect(seen.slice(0, 4)).toEqual([7, 8, 9, 10]);
  const end = subscription.closed();
  subscription[Symbol.dispose]();
  await expect(end).resolves.toBeUndefined();
});

test("a subscription to ephemeral events asks the log for them, and one that does not ask has none", async () => {
  const asked: boolean[] = [];
  const contextLog = () => ({
    follow: async function* ({ afterOffset, includeEphemeral }: { afterOffset: number; includeEphemeral: boolean }) {
      asked.push(includeEphemeral);
      yield { events: [], scannedThroughOffset: afterOffset, atHead: true };
      await new Promise(() => undefined);
    },
  });
  const { api } = connect(await serve({ parts: parts({ contextLog }) }));
  using session = await api.authenticate({ type: "admin-secret", secret: token });
  using handle = await session.projects.get("a");
  const onEvents = (): void => undefined;
  using _plain = await handle.subscribe({ afterOffset: 0, onEvents });
  using _all = await handle.subscribe({ afterOffset: 0, includeEphemeral: true, onEvents });
  await eventually(() => asked.length === 2);
  expect(asked).toEqual([false, true]);
});

test("a callback that throws ends its subscription with CODE_FAILED", async () => {
  const { api } = connect(await serve());
  using session = await api.authenticate({ type: "admin-secret", secret: token });
  using handle = await session.projects.get("a");
  using subscription = await handle.subscribe(() => {
    throw new Error("full");
  });
  await expect(subscription.closed()).rejects.toMatchObject({ code: "CODE_FAILED" });
});

test("a session opens its limit of subscriptions and not one more, and a disposed one makes room", async () => {
  const never = {
    contextLog: () => ({
      follow: async function* () {
        await new Promise(() => undefined);
      },
    }),
  };
  const { api } = connect(await serve({ parts: parts(never) }));
  using session = await api.authenticate({ type: "admin-secret", secret: token });
  using handle = await session.projects.get("a");
  const open = () => handle.subscribe(() => undefined);
  const all = await Promise.all(Array.from({ length: maxSubscriptions }, open));
  await expect(open()).rejects.toMatchObject({ code: "OVERLOADED" });
  for (const one of all) one[Symbol.dispose]();
});

test("a fault without a code reaches the client as INTERNAL with what to quote, and no stack", async () => {
  const broken = parts({ headOffset: async () => Promise.reject(new Error("password=hunter2 at /srv/app.js")) });
  const { api } = connect(await serve({ parts: broken }));
  using session = await api.authenticate({ type: "admin-secret", secret: token });
  using handle = await session.projects.get("a");
  const failure = await handle
    .subscribe(() => undefined)
    .then(
      () => null,
      (error: Error) => error,
    );
  expect(failure).toMatchObject({ code: "INTERNAL", message: expect.stringContaining("log-1") as unknown });
  expect(`${failure?.message} ${failure?.stack}`).not.toMatch(/hunter2|app\.js/);
  expect(reported).toHaveLength(1);
});

test.for(["garbage", "[]", '["pull",99]', '["push",["pipeline",99,["x"],[]]]', '["release",0,5]'])(
  "a stranger who sends %s is told so, and is no fault of the platform",
  async (message) => {
    const { socket } = connect(await serve());
    const answers: string[] = [];
    socket.on("message", (data: Buffer) => answers.push(data.toString()));
    socket.once("open", () => socket.send(message));
    await eventually(() => answers.some((answer) => answer.includes("INVALID_INPUT")), { timeoutMs: 5_000 });
    expect(reported).toEqual([]);
  },
);

test("a page of another origin is refused; a program and the own origin are not", async () => {
  const url = await serve();
  const refused = connect(url, { origin: "http://evil.example" });
  await expect(closed(refused.socket)).resolves.toBe(1006);
  const own = connect(url, { origin: "http://console.example" });
  await expect(own.api.authenticate({ type: "admin-secret", secret: token })).resolves.toBeDefined();
});

test("a socket that does not authenticate in time is closed with 1008", async () => {
  const { socket } = connect(await serve({ authenticateWithinMs: 30 }));
  await expect(closed(socket)).resolves.toBe(1008);
});

test("a silent peer is ended by the heartbeat", async () => {
  const { socket } = connect(await serve({ heartbeatMs: 25 }));
  await new Promise((resolve) => socket.once("open", resolve));
  socket.pong = () => undefined;
  // ws answers pings by itself unless it is paused: a paused socket is a peer that went silent.
  socket.pause();
  await eventually(() => expect(sockets.size).toBe(0));
});

test("above the limit of sockets a new one is told to try later, and a drain tells all to come back", async () => {
  const url = await serve({ maxSockets: 1 });
  const first = connect(url);
  await first.api.authenticate({ type: "admin-secret", secret: token });
  await expect(closed(connect(url).socket)).resolves.toBe(1013);
  const end = closed(first.socket);
  sockets.close();
  await expect(end).resolves.toBe(1012);
});

const answers = (answer: unknown, asked: unknown[] = []) =>
  parts({
    contextCalls: (owner: string, path: string, principal: string) => ({
      invoke: async (expression: unknown) => {
        asked.push({ owner, path, principal, expression });
        return answer;
      },
      describe: async (expression: unknown) => ({ expression, path, text: "words" }),
      explain: async (subject: unknown) => ({ done: true, reasons: [], headOffset: 1, away: [], subject }),
    }),
  });

async function contextOf(session: SessionParts) {
  const { api } = connect(await serve({ parts: session }));
  return api.authenticate({ type: "admin-secret", secret: token }).projects.get("a").cd("/b");
}

test("a call is made at the context, for the session's principal, with its arguments at the expression's end", async () => {
  const asked: unknown[] = [];
  const context = await contextOf(answers({ kind: "value", value: { n: 1 } }, asked));
  expect(await context.invoke("itx.kv.get", "k")).toEqual({ n: 1 });
  expect(await context.call({ expression: ["itx", ["whoami"]], onItem: () => undefined })).toEqual({ value: { n: 1 } });
  expect(asked).toEqual([
    { owner: "prj_a", path: "/b", principal: "admin", expression: ["itx", "kv", ["get", "k"]] },
    { owner: "prj_a", path: "/b", principal: "admin", expression: ["itx", ["whoami"]] },
  ]);
  expect(await context.describe("itx.kv")).toEqual({ expression: ["itx", "kv"], path: "/b", text: "words" });
  await expect(context.invoke("itx.")).rejects.toMatchObject({ code: "INVALID_INPUT" });
  expect(await context.explain({ event: 7 })).toMatchObject({ done: true, subject: { event: 7 } });
  for (const subject of [{ event: 0 }, { subscription: "" }, { schedule: "k".repeat(257) }, {}, { event: 1, run: 1 }])
    await expect(context.explain(subject as { event: number })).rejects.toMatchObject({ code: "INVALID_INPUT" });
  await expect(context.call({ expression: "itx.kv" } as never)).rejects.toMatchObject({ code: "INVALID_INPUT" });
});

test("the items of a stream are handed over one at a time, and it ends when the client lets it go", async () => {
  let made = 0;
  let ended = 0;
  const items = async function* () {
    try {
      for (;;) yield (made += 1);
    } finally {
      ended += 1;
    }
  };
  const context = await contextOf(answers({ kind: "stream", items: { [Symbol.asyncIterator]: items } }));
  await expect(context.invoke("itx.streamEvents()")).rejects.toMatchObject({ code: "INVALID_INPUT" });
  const taken: unknown[] = [];
  const { promise: third, resolve } = Promise.withResolvers<void>();
  const { promise: never } = Promise.withResolvers<void>();
  const { stream } = await context.call({
    expression: "itx.streamEvents()",
    onItem: async (item) => {
      taken.push(item);
      if (taken.length < 3) return;
      resolve();
      await never;
    },
  });
  await third;
  expect([taken, made]).toEqual([[1, 2, 3], 3]);
  const closing = stream!.closed();
  stream![Symbol.dispose]();
  await closing;
  await eventually(() => Promise.resolve(ended === 1));
});

test("a stream whose client fails to take an item ends with the reason", async () => {
  const items = async function* () {
    yield 1;
  };
  const context = await contextOf(answers({ kind: "stream", items: { [Symbol.asyncIterator]: items } }));
  const { stream } = await context.call({ expression: "itx.streamEvents()", onItem: () => Promise.reject(new Error("full")) });
  await expect(stream!.closed()).rejects.toMatchObject({ code: "CODE_FAILED" });
});
