import { createServer, request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { isCodedError } from "iterate/lib";
import { afterEach, expect, test } from "vitest";
import { createForwarder, type ForwardOptions } from "./forward.js";

const servers: Server[] = [];
const forwarder = createForwarder();
const rules = { drop: new Set(["cookie"]) };

async function listen(handler: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(handler);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An edge in front of `origin`; a coded failure before the answer becomes its code. */
function edge(origin: string, options: Partial<ForwardOptions> = {}): Promise<string> {
  return listen((request, response) => {
    forwarder
      .forward(request, response, {
        origin,
        path: request.url ?? "/",
        headers: { "x-iterate-base-path": "/p" },
        rules,
        idleTimeoutMs: 5_000,
        ...options,
      })
      .catch((error: unknown) =>
        response
          .writeHead(isCodedError(error) && error.code === "UNAVAILABLE" ? 503 : 500)
          .end(isCodedError(error) ? error.code : ""),
      );
  });
}

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

test("method, path, query, body and headers arrive, and the answer comes back", async () => {
  const origin = await listen((request, response) => {
    void (async () => {
      const body = (await request.toArray()).join("");
      response
        .writeHead(201, { "x-answer": "1" })
        .end(JSON.stringify({ url: request.url, method: request.method, body, headers: request.headers }));
    })();
  });
  const answer = await fetch(`${await edge(origin)}/a/b?c=%20d`, {
    method: "PUT",
    body: "hello",
    headers: { cookie: "a=1", "x-itx-principal": "root", "x-own": "2" },
  });
  expect(answer.status).toBe(201);
  expect(answer.headers.get("x-answer")).toBe("1");
  const seen = (await answer.json()) as { headers: Record<string, string> };
  expect(seen).toMatchObject({
    url: "/a/b?c=%20d",
    method: "PUT",
    body: "hello",
    headers: { "x-own": "2", "x-iterate-base-path": "/p" },
  });
  expect(seen.headers["cookie"]).toBeUndefined();
  expect(seen.headers["x-itx-principal"]).toBeUndefined();
});

test("an answer streams: its first piece arrives while the rest is not written yet", async () => {
  let finish = (): void => undefined;
  const origin = await listen((_request, response) => {
    response.write("first");
    finish = () => response.end("last");
  });
  const answer = await fetch(await edge(origin));
  const reader = answer.body?.getReader();
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("first");
  finish();
  expect(Buffer.from((await reader?.read())?.value ?? []).toString()).toBe("last");
});

test("a client that leaves cancels the exchange behind the edge", async () => {
  let cancelled = (): void => undefined;
  const wasCancelled = new Promise<void>((resolve) => (cancelled = resolve));
  const origin = await listen((_request, response) => {
    response.write("first");
    response.once("close", cancelled);
  });
  const controller = new AbortController();
  const answer = await fetch(await edge(origin), { signal: controller.signal });
  await answer.body?.getReader().read();
  controller.abort();
  await wasCancelled;
});

test("an answer that breaks off is cut, not ended", async () => {
  const origin = await listen((_request, response) => {
    response.write("first");
    setImmediate(() => response.destroy());
  });
  const address = await edge(origin);
  const end = await new Promise<string>((resolve) => {
    httpRequest(address, (answer) => {
      answer.resume();
      answer.once("end", () => resolve("end"));
      answer.once("error", () => resolve("cut"));
    }).end();
  });
  expect(end).toBe("cut");
});

test("a service that is away, or that does not answer in time, is UNAVAILABLE", async () => {
  const away = await fetch(await edge("http://127.0.0.1:9"));
  expect([away.status, await away.text()]).toEqual([503, "UNAVAILABLE"]);
  const silent = await listen(() => undefined);
  const late = await fetch(await edge(silent, { idleTimeoutMs: 50 }));
  expect([late.status, await late.text()]).toEqual([503, "UNAVAILABLE"]);
});

test("an upload is not read faster than the service takes it", async () => {
  let taken = 0;
  const origin = await listen((request, response) => {
    request.once("readable", () => {
      taken = request.readableLength;
      response.writeHead(413).end();
      request.destroy();
    });
  });
  const size = 64 * 1024 * 1024;
  await fetch(await edge(origin), { method: "POST", body: Buffer.alloc(size) })
    .then((answer) => answer.text())
    .catch(() => undefined);
  expect(taken).toBeLessThan(size / 8);
});
