import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { codedError } from "iterate/lib";
import { afterEach, describe, expect, test } from "vitest";
import { echoTrust } from "./grpc-echo.fixture.js";
import { createHttpServer, httpAuth, readBody, type HttpHandler, type HttpServer, type HttpServerOptions } from "./http-server.js";
import { createLog } from "./log.js";

const servers: HttpServer[] = [];
async function start(handler: HttpHandler, options: Partial<HttpServerOptions> = {}) {
  const lines: string[] = [];
  const server = createHttpServer({
    name: "ingress",
    listen: { variable: "HTTP_LISTEN", host: "127.0.0.1", port: 0 },
    log: createLog("ingress", { write: (line) => lines.push(line) }),
    handler,
    ...options,
  });
  servers.push(server);
  const port = await server.start();
  return { server, port, url: `http://127.0.0.1:${port}`, lines };
}
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.drain(0)));
});

/** What a raw client gets for the bytes it writes, until the server closes. */
async function rawExchange(port: number, text: string, { end = false } = {}): Promise<string> {
  const socket: Socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(text);
  if (end) socket.end();
  let answer = "";
  socket.on("data", (chunk) => (answer += String(chunk)));
  socket.on("error", () => {});
  await once(socket, "close");
  return answer;
}

const echo: HttpHandler = async (request, response) => void response.end(await readBody(request, 1_000));

describe("an HTTP listener", () => {
  test.each([
    [999, 200],
    [1_000, 200],
    [1_001, 413],
  ])("answers a body of %d bytes with %d, declared or chunked", async (bytes, status) => {
    const { url } = await start(echo);
    const body = "x".repeat(bytes);
    const declared = await fetch(url, { method: "POST", body });
    const chunked = await fetch(url, { method: "POST", body: new Blob([body]).stream(), duplex: "half" });
    expect([declared.status, chunked.status]).toEqual([status, status]);
    if (status === 413)
      expect(await declared.json()).toMatchObject({
        type: "urn:iterate:error:BATCH_TOO_LARGE",
        status: 413,
        code: "BATCH_TOO_LARGE",
      });
    else expect(await chunked.text()).toBe(body);
  });

  test("answers errors as problem details, faults without their text", async () => {
    const { url, lines } = await start((request) => {
      if (request.url === "/coded") throw codedError("NOT_FOUND", "no project p1", { slug: "p1" });
      if (request.url === "/busy") throw codedError("UNAVAILABLE", "context is away");
      return Promise.reject(new Error("secret of /srv/x.ts"));
    });
    const coded = await fetch(`${url}/coded`);
    expect([coded.status, coded.headers.get("content-type")]).toEqual([404, "application/problem+json"]);
    expect(await coded.json()).toMatchObject({ title: "Nothing has this name.", detail: "no project p1", data: { slug: "p1" } });
    const busy = await fetch(`${url}/busy`);
    expect([busy.status, busy.headers.get("retry-after")]).toEqual([503, "1"]);
    const fault = await fetch(`${url}/fault?token=hunter2`);
    expect(fault.status).toBe(500);
    expect(await fault.text()).not.toContain("/srv");
    expect(lines.join()).toContain("secret of /srv/x.ts");
    expect(lines.join()).not.toContain("hunter2");
  });

  test("outlives a request whose socket was taken away by the client library that had it for a body", async () => {
    const { port, url } = await start((request, response) => {
      if (request.method === "GET") return void response.end("alive");
      Object.assign(request, { socket: null });
      request.destroy(new Error("its body is malformed"));
      throw codedError("UNAVAILABLE", "the service behind this address is away");
    });
    const answer = await rawExchange(port, "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 5\r\n\r\nx", {
      end: true,
    });
    expect(answer).toMatch(/^HTTP\/1\.1 503/);
    expect(await (await fetch(url)).text()).toBe("alive");
  });

  test("cuts an answer that failed after it began", async () => {
    const { url } = await start(async (_request, response) => {
      response.writeHead(200, { "content-length": 10 });
      response.write("half");
      await new Promise((resolve) => setImmediate(resolve));
      throw new Error("late");
    });
    await expect(fetch(url).then((response) => response.text())).rejects.toThrow();
  });

  test("refuses a header block over its limit and a request without Host", async () => {
    const { port } = await start(echo, { maxHeaderBytes: 2_000 });
    const of = (bytes: number): string => `GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx: ${"y".repeat(bytes)}\r\n\r\n`;
    expect(await rawExchange(port, of(1_800))).toMatch(/^HTTP\/1\.1 200/);
    expect(await rawExchange(port, of(2_100))).toMatch(/^HTTP\/1\.1 431/);
    expect(await rawExchange(port, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n")).toMatch(/^HTTP\/1\.1 400/);
  });

  test("does not wait for slow clients longer than its bounds", async () => {
    const { port } = await start(echo, { headersTimeoutMs: 300, requestTimeoutMs: 600 });
    expect(await rawExchange(port, "GET / HTTP/1.1\r\nhost: a\r\n")).toMatch(/^HTTP\/1\.1 408/);
    expect(await rawExchange(port, "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nx")).toMatch(/^HTTP\/1\.1 408/);
  });

  test("tells its handler when the client leaves", async () => {
    const left = Promise.withResolvers<unknown>();
    const reached = Promise.withResolvers<void>();
    const { server, port } = await start(async (_request, _response, { signal }) => {
      reached.resolve();
      await once(signal, "abort");
      left.resolve(signal.reason);
    });
    const request = httpRequest({ port, host: "127.0.0.1" }).on("error", () => {});
    request.end();
    await reached.promise;
    expect(server.inFlight).toBe(1);
    request.destroy();
    expect(await left.promise).toMatchObject({ code: "CANCELLED" });
    await expect.poll(() => server.inFlight).toBe(0);
  });

  test.for([
    ["of declared length", {}],
    ["of unknown length", { "transfer-encoding": "chunked" }],
  ] as const)("lets a sender that is still sending see why its body %s was refused", async ([, headers]) => {
    const { port } = await start(echo);
    const status = await new Promise<number | string>((resolve) => {
      const request = httpRequest({ port, host: "127.0.0.1", method: "POST", headers }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      request.on("error", (error) => resolve(error.message));
      request.end(Buffer.alloc(20_000_000));
    });
    expect(status).toBe(413);
  });

  test("says CANCELLED when a client leaves in the middle of its body", async () => {
    const seen = Promise.withResolvers<unknown>();
    const { port } = await start((request) => readBody(request, 1_000).then(seen.reject, seen.resolve));
    const socket = connect(port, "127.0.0.1");
    socket.write("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 50\r\n\r\nhalf");
    setTimeout(() => socket.destroy(), 50);
    expect(await seen.promise).toMatchObject({ code: "CANCELLED" });
  });

  test("admits internal callers by token and table", async () => {
    const trust = await echoTrust();
    const { url } = await start(async (request, response) => {
      const caller = await httpAuth(request, trust.echo, { services: ["runner"], execution: "allowed" });
      response.end(caller.service);
    });
    const get = async (headers: Record<string, string>): Promise<number> => (await fetch(url, { headers })).status;
    expect(await get({})).toBe(401);
    expect(await get(await trust.caller.headers("echo"))).toBe(403);
    expect(await get(await trust.runner.headers("other"))).toBe(401);
    expect(await get(await trust.runner.headers("echo"))).toBe(200);
  });

  test("hands an upgrade over, answers its refusal, and refuses without a handler", async () => {
    const { port } = await start(echo, {
      onUpgrade: (request, socket) => {
        if (request.url === "/no") throw codedError("FORBIDDEN", "not here");
        socket.end("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nhello");
      },
    });
    const upgrade = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n`;
    expect(await rawExchange(port, upgrade("/"))).toContain("hello");
    expect(await rawExchange(port, upgrade("/no"))).toMatch(/^HTTP\/1\.1 403 FORBIDDEN/);
    const plain = await start(echo);
    expect(await rawExchange(plain.port, upgrade("/"))).toMatch(/^HTTP\/1\.1 404/);
  });

  test("names the variable of a busy port", async () => {
    const busy = createServer().listen(0, "127.0.0.1");
    await once(busy, "listening");
    const { port } = busy.address() as { port: number };
    await expect(start(echo, { listen: { variable: "HTTP_LISTEN", host: "127.0.0.1", port } })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining(`HTTP_LISTEN=127.0.0.1:${port}`) as string,
    });
    servers.pop();
    busy.close();
  });
});

describe("a drain", () => {
  test("finishes what is in flight, closes kept-alive connections and takes nothing new", async () => {
    const go = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const { server, url } = await start(async (request, response) => {
      if (request.url === "/slow") {
        reached.resolve();
        await go.promise;
      }
      response.end("done");
    });
    await (await fetch(url)).text();
    const slow = fetch(`${url}/slow`);
    await reached.promise;
    const drained = server.drain(5_000);
    await expect(fetch(url)).rejects.toThrow();
    go.resolve();
    expect(await (await slow).text()).toBe("done");
    expect(await drained).toBe(0);
  });

  test("answers what is left at its bound with UNAVAILABLE and counts it", async () => {
    const reached = Promise.withResolvers<void>();
    const { server, url } = await start(() => {
      reached.resolve();
      return new Promise(() => {});
    });
    const stuck = fetch(url);
    await reached.promise;
    expect(await server.drain(50)).toBe(1);
    expect((await stuck).status).toBe(503);
  });
});
