import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { once } from "node:events";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "./eventually.js";
import { FaultProxy } from "./fault-proxy.js";
import { useTestDatabase } from "./fixture.js";

describe("in front of an echo", () => {
  let echo: Server;
  let proxy: FaultProxy;
  const sockets: Socket[] = [];

  beforeEach(async () => {
    echo = createServer((socket) => socket.on("error", () => undefined).pipe(socket)).listen(0, "127.0.0.1");
    await once(echo, "listening");
    proxy = await FaultProxy.start(`127.0.0.1:${(echo.address() as AddressInfo).port}`);
  });
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy();
    proxy.stop();
    echo.close();
  });

  async function dial(): Promise<{ socket: Socket; heard: () => string; error: () => string | undefined }> {
    const socket = connect(proxy.port, "127.0.0.1");
    sockets.push(socket);
    let text = "";
    let code: string | undefined;
    socket.on("data", (chunk: Buffer) => (text += chunk.toString()));
    socket.on("error", (error: NodeJS.ErrnoException) => (code = error.code));
    await once(socket, "connect");
    return { socket, heard: () => text, error: () => code };
  }

  test("passes everything, in order, when no fault is set", async () => {
    const { socket, heard } = await dial();
    const text = "0123456789".repeat(100_000);
    socket.write(text);
    await eventually(() => heard().length === text.length);
    expect(heard()).toBe(text);
  });

  test("delays both ways and keeps the order when the delay ends midway", async () => {
    const { socket, heard } = await dial();
    proxy.delay(60);
    const start = performance.now();
    socket.write("a");
    await eventually(() => proxy.connections === 1);
    proxy.delay(60);
    await eventually(() => heard() === "a");
    expect(performance.now() - start).toBeGreaterThanOrEqual(115);
    socket.write("b");
    await new Promise((resolve) => setImmediate(resolve));
    await proxy.heal();
    socket.write("c");
    await eventually(() => heard() === "abc");
  });

  test("drops in silence, open and new connections alike, until healed", async () => {
    const { socket, heard, error } = await dial();
    proxy.drop();
    socket.write("lost?");
    const late = await dial();
    late.socket.write("late");
    await expect(eventually(() => heard() !== "" || late.heard() !== "", { timeoutMs: 150 })).rejects.toThrow(
      /not so within 150 ms/,
    );
    expect(error()).toBeUndefined();
    await proxy.heal();
    await eventually(() => heard() === "lost?" && late.heard() === "late");
  });

  test("cuts and resets open connections, and lets the next one through", async () => {
    const first = await dial();
    first.socket.write("x");
    await eventually(() => first.heard() === "x");
    expect(proxy.cut()).toBe(1);
    await eventually(() => first.socket.closed);
    const second = await dial();
    second.socket.write("x");
    await eventually(() => second.heard() === "x");
    expect(proxy.reset()).toBe(1);
    await eventually(() => second.error() === "ECONNRESET");
    const third = await dial();
    third.socket.write("y");
    await eventually(() => third.heard() === "y");
    expect(proxy.connections).toBe(1);
  });

  test("refuses new connections until healed, on the same port", async () => {
    const { port } = proxy;
    proxy.refuse();
    await expect(dial()).rejects.toThrow(/ECONNREFUSED/);
    await proxy.heal();
    expect(proxy.port).toBe(port);
    const { socket, heard } = await dial();
    socket.write("back");
    await eventually(() => heard() === "back");
  });

  test.each([
    { sent: 9, isCut: false },
    { sent: 10, isCut: true },
    { sent: 11, isCut: true },
  ])("cuts at the answer after 10 bytes: $sent sent", async ({ sent, isCut }) => {
    const { socket, heard, error } = await dial();
    socket.write("earlier bytes do not count");
    await eventually(() => heard() !== "");
    let wasCut = false;
    void proxy.cutAtAnswer({ afterClientBytes: 10 }).then(() => (wasCut = true));
    const before = heard();
    socket.write("x".repeat(sent));
    if (isCut) await eventually(() => error() === "ECONNRESET" && wasCut);
    else await eventually(() => heard() === before + "x".repeat(sent));
    expect(wasCut).toBe(isCut);
    if (isCut) expect(heard()).toBe(before);
  });
});

describe("in front of Postgres", () => {
  const database = useTestDatabase();

  test("cuts between the commit of a statement and its answer", async () => {
    const direct = new pg.Client(database.url);
    await direct.connect();
    await direct.query("create table entry (n int)");
    const proxy = await FaultProxy.start(database.url);
    const client = new pg.Client(proxy.url(database.url));
    client.on("error", () => undefined);
    await client.connect();
    await client.query("select 1");
    const cut = proxy.cutAtAnswer({ afterClientText: "insert into entry" });
    await expect(client.query("insert into entry values ($1)", [7])).rejects.toThrow();
    await cut;
    expect((await direct.query("select n from entry")).rows).toEqual([{ n: 7 }]);
    proxy.stop();
    await direct.end();
  });
});
