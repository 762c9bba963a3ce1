import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { errorCode } from "../lib/index.js";
import type { EventsFrame } from "./index.js";
import { connectIterate } from "./index.js";
import { MemoryDeployment } from "./memory-deployment.fixture.js";
import { SocketTransport } from "./socket-transport.js";

const deployment = new MemoryDeployment();
const auth = { type: "admin-secret", secret: deployment.secret } as const;
const connect = () => connectIterate({ baseUrl: deployment.baseUrl, auth });
/** Settles when `isDone`, which the test makes true by an event it waits for; the test's own timeout bounds it. */
const until = async (isDone: () => boolean): Promise<void> => {
  while (!isDone()) await new Promise((resolve) => setImmediate(resolve));
};

beforeEach(() => deployment.start());
afterEach(async () => {
  await deployment.stop();
  deployment.projects.clear();
});

describe("connectIterate", () => {
  it("answers a session whose calls pipeline through project and context", async () => {
    using connection = await connect();
    const { session } = connection;
    expect(await session.whoami()).toEqual({ kind: "admin", principal: "admin" });
    expect(await session.projects.create({ slug: "acme" })).toMatchObject({ id: "prj_acme", slug: "acme" });
    using project = await session.projects.get("acme");
    const [event] = await project
      .cd("/agents")
      .cd("./a")
      .append({ type: "hello", payload: { n: 1, deep: [null, "é"] } });
    expect(event).toMatchObject({ offset: 1, path: "/agents/a", payload: { n: 1, deep: [null, "é"] } });
    expect(await session.projects.get("acme").cd("/agents/a").readEvents({ afterOffset: 0 })).toMatchObject({
      scannedThroughOffset: 1,
      atHead: true,
    });
    expect(await project.webhooks.create({ provider: "github" })).toMatchObject({
      contextPath: "/integrations/github/main",
      secret: "made-for-you-0000",
    });
  });

  it("rejects a call with the code and data the platform gave", async () => {
    using connection = await connect();
    await connection.session.projects.create({ slug: "acme" });
    const thrown: unknown = await connection.session.projects.create({ slug: "acme" }).catch((error: unknown) => error);
    expect(errorCode(thrown)).toBe("PROJECT_NAME_TAKEN");
    expect(thrown).toMatchObject({ message: 'the slug "acme" is taken', data: { slug: "acme" } });
  });

  it("delivers a subscription in order and ends it when it is disposed", async () => {
    using connection = await connect();
    await connection.session.projects.create({ slug: "acme" });
    using context = await connection.session.projects.get("acme").cd("/a");
    await context.append({ type: "tick" }, { type: "tock" }, { type: "tick" });
    const frames: EventsFrame[] = [];
    const subscription = await context.subscribe({ afterOffset: 0, types: ["tick"], onEvents: (frame) => void frames.push(frame) });
    await until(() => frames.length > 0);
    await context.append({ type: "tick" });
    await until(() => frames.flatMap(({ events }) => events).length === 3);
    expect(frames.flatMap(({ events }) => events.map(({ offset }) => offset))).toEqual([1, 3, 4]);
    expect(deployment.subscriptions).toBe(1);
    subscription[Symbol.dispose]();
    await until(() => deployment.subscriptions === 0);
  });

  it("closes the socket with its block, and then refuses calls", async () => {
    const connection = await connect();
    const { session } = connection;
    connection[Symbol.dispose]();
    connection[Symbol.dispose]();
    await expect(session.whoami()).rejects.toThrow();
    expect((await connection.closed).code).toBe("CANCELLED");
  });

  it("fails the calls in flight and every later one with UNAVAILABLE when the connection is lost", async () => {
    using connection = await connect();
    await connection.session.projects.create({ slug: "acme" });
    const frames: EventsFrame[] = [];
    const subscription = await connection.session.projects.get("acme").subscribe((frame) => void frames.push(frame));
    await until(() => frames.length === 1);
    const closed = subscription.closed();
    deployment.cut();
    await expect(closed).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await expect(connection.session.whoami()).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("was lost") as string,
    });
    expect((await connection.closed).code).toBe("UNAVAILABLE");
  });
});

describe("a connection that cannot be made", () => {
  let server: Server;
  const serve = async (status: number, headers: Record<string, string> = {}) => {
    server = createServer((_request, response) => response.writeHead(404).end());
    server.on("upgrade", (_request, socket) => {
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n${lines.join("")}\r\n`);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  afterEach(() => server?.close());

  it("says that the secret is wrong, and leaves no socket open", async () => {
    const wrong = connectIterate({ baseUrl: deployment.baseUrl, auth: { type: "admin-secret", secret: "wrong" } });
    await expect(wrong).rejects.toMatchObject({ name: "CodedError", code: "INVALID_CREDENTIALS" });
    await until(() => deployment.connections === 0);
  });

  it.each([
    ["not an address", "acme.example"],
    ["another protocol", "ftp://acme.example"],
  ])("refuses a base URL that is %s", async (_name, baseUrl) => {
    await expect(connectIterate({ baseUrl, auth })).rejects.toMatchObject({
      code: "INVALID_INPUT",
      message: expect.stringContaining("http://localhost:7400") as string,
    });
  });

  it("says that nothing answers there", async () => {
    const baseUrl = deployment.baseUrl;
    await deployment.stop();
    await expect(connectIterate({ baseUrl, auth })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(/cannot connect to http:.*ECONNREFUSED.*is the platform running/) as string,
    });
    await deployment.start();
  });

  it.each([
    [401, "UNAUTHENTICATED"],
    [403, "FORBIDDEN"],
    [404, "NOT_FOUND"],
    [429, "UNAVAILABLE"],
    [503, "UNAVAILABLE"],
  ])("answers HTTP %i as %s", async (status, code) => {
    await expect(connectIterate({ baseUrl: await serve(status), auth })).rejects.toMatchObject({ code, data: { status } });
  });

  it("passes on when to retry", async () => {
    await expect(connectIterate({ baseUrl: await serve(503, { "retry-after": "7" }), auth })).rejects.toMatchObject({
      retryAfterMs: 7000,
    });
  });

  it("gives up on a server that takes the socket and never answers", async () => {
    const silent = createServer();
    const sockets = new WebSocketServer({ server: silent });
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const baseUrl = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    await expect(connectIterate({ baseUrl, auth, timeoutMs: 50 })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    sockets.close();
    silent.close();
  });
});

describe("SocketTransport", () => {
  it("finds out by its heartbeat that the peer went silent", async () => {
    const socket = new WebSocket(`${deployment.baseUrl.replace("http", "ws")}/api`);
    await new Promise((resolve) => socket.once("open", resolve));
    const transport = new SocketTransport(socket, "the peer", 20);
    const receiving = transport.receive();
    deployment.freeze();
    await expect(receiving).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("the connection to the peer was lost") as string,
    });
    expect((await transport.closed).code).toBe("UNAVAILABLE");
    await expect(transport.receive()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });
});
