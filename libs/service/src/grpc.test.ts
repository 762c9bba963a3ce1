import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { createServer } from "node:net";
import { Client, credentials, Metadata, status as grpcStatus, type ServiceError } from "@grpc/grpc-js";
import { ContextServiceClient, ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import { readDescriptorSet } from "@iterate-platform/proto/descriptor-set";
import { HealthCheckResponse_ServingStatus as ServingStatus, HealthService } from "@iterate-platform/proto/grpc/health/v1/health";
import { codedError, type ErrorCode } from "iterate/lib";
import { afterEach, describe, expect, test } from "vitest";
import { createClient } from "./grpc-client.js";
import { EchoService, echoTrust, openRules, startEcho, type Echo, type EchoHandlers, type Note } from "./grpc-echo.fixture.js";
import { createGrpcServer, EncodedMessage, raw, type CallContext } from "./grpc-server.js";
import { createLog } from "./log.js";
import { defaultMaxRequestBytes, maxResponseBytes } from "./message-limits.js";

const started: Echo[] = [];
const start: typeof startEcho = async (...args) => {
  const echo = await startEcho(...args);
  started.push(echo);
  return echo;
};
afterEach(async () => {
  await Promise.all(started.splice(0).map((echo) => echo.stop()));
});

const echoing: EchoHandlers = {
  unary: (request) => Promise.resolve(request),
  serverStream: async function* (request) {
    for (let i = 0; i < Number(request.text); i += 1) yield { text: String(i) };
  },
  clientStream: async (requests) => {
    let text = "";
    for await (const request of requests) text += request.text;
    return { text };
  },
  bidi: async function* (requests) {
    for await (const request of requests) yield { text: request.text.toUpperCase() };
  },
};

async function codeOf(promise: Promise<unknown>): Promise<{ code: ErrorCode; message: string; data: Record<string, unknown> }> {
  return promise.then(
    (value) => {
      throw new Error(`it answered ${JSON.stringify(value)}`);
    },
    (error: { code: ErrorCode; message: string; data: Record<string, unknown> }) => error,
  );
}

async function collect(messages: AsyncIterable<Note>): Promise<string[]> {
  const texts: string[] = [];
  for await (const message of messages) texts.push(message.text);
  return texts;
}

/** A promise with its settler, for holding a handler until the test says so. */
function gate<T = void>() {
  return Promise.withResolvers<T>();
}

describe("calls of all four kinds", () => {
  test("go there and back", async () => {
    const { client } = await start(echoing);
    expect(await client.unary({ text: "hello" })).toEqual({ text: "hello" });
    expect(await collect(client.serverStream({ text: "3" }))).toEqual(["0", "1", "2"]);
    const upload = client.clientStream();
    for (const text of ["a", "b", "c"]) await upload.send({ text });
    upload.end();
    expect(await upload.response).toEqual({ text: "abc" });
    const talk = client.bidi();
    await talk.send({ text: "one" });
    expect(await talk.responses.next()).toEqual({ done: false, value: { text: "ONE" } });
    await talk.send({ text: "two" });
    talk.end();
    expect(await collect(talk.responses)).toEqual(["TWO"]);
  });

  test("take answers that are bytes already, and say when they need them no more", async () => {
    const sent: string[] = [];
    class EncodedNote extends EncodedMessage implements Note {
      readonly text = "not looked at";
      readonly #bytes: Buffer;

      constructor(text: string) {
        super();
        this.#bytes = Buffer.from(JSON.stringify({ text }));
      }

      encoded(): Buffer {
        return this.#bytes;
      }

      sent(): void {
        sent.push(this.#bytes.toString("utf8", 9, 10));
        this.#bytes.fill(0);
      }
    }
    const { client } = await start({
      unary: ({ text }) => Promise.resolve(new EncodedNote(text === "large" ? "x".repeat(maxResponseBytes) : text)),
      serverStream: async function* () {
        for (let n = 0; n < 3; n += 1) yield new EncodedNote(`${n} ${"x".repeat(100_000)}`);
        yield { text: "as an object" };
      },
    });
    expect(await client.unary({ text: "hello" })).toEqual({ text: "hello" });
    const texts = await collect(client.serverStream({ text: "" }));
    expect(texts.map((text) => text.slice(0, 12))).toEqual(["0 xxxxxxxxxx", "1 xxxxxxxxxx", "2 xxxxxxxxxx", "as an object"]);
    expect(sent).toEqual(["0", "1", "2"]);
    expect(await codeOf(client.unary({ text: "large" }))).toMatchObject({ code: "INTERNAL" });
  });

  test("bring a CodedError back from each, after what was answered before it", async () => {
    const { client } = await start({
      unary: () => {
        throw codedError("STALE_EPOCH", "epoch 3 < 4", { epoch: 3 });
      },
      serverStream: async function* () {
        yield { text: "before" };
        throw codedError("OFFSET_TRUNCATED", "first is 9", { firstOffset: 9 });
      },
      clientStream: () => Promise.reject(codedError("BATCH_TOO_LARGE", "too many")),
      bidi: async function* () {
        yield { text: "before" };
        throw codedError("LOOP_LIMIT", "depth 30");
      },
    });
    expect(await codeOf(client.unary({ text: "" }))).toMatchObject({
      code: "STALE_EPOCH",
      message: "epoch 3 < 4",
      data: { epoch: 3 },
    });
    for (const [responses, code] of [
      [client.serverStream({ text: "" }), "OFFSET_TRUNCATED"],
      [client.bidi().responses, "LOOP_LIMIT"],
    ] as const) {
      expect(await responses.next()).toEqual({ done: false, value: { text: "before" } });
      expect(await codeOf(responses.next())).toMatchObject({ code });
    }
    expect(await codeOf(client.clientStream().response)).toMatchObject({ code: "BATCH_TOO_LARGE" });
  });

  test("answer a fault with a log id and nothing else", async () => {
    const { client, lines } = await start({ unary: () => Promise.reject(new Error("secret of /srv/x.ts")) });
    const error = await codeOf(client.unary({ text: "" }));
    expect(error.code).toBe("INTERNAL");
    expect(error.message).not.toContain("/srv");
    expect(lines.map((line) => JSON.parse(line) as { logId?: string })).toMatchObject([
      { logId: error.data["logId"], error: { message: "secret of /srv/x.ts" } },
    ]);
  });

  test("let a library's error be classified", async () => {
    const { client } = await start(
      { unary: () => Promise.reject(Object.assign(new Error("terminating connection"), { code: "57P01" })) },
      {
        classify: (thrown) =>
          (thrown as { code?: string }).code === "57P01" ? codedError("UNAVAILABLE", "the database is away") : undefined,
      },
    );
    expect(await codeOf(client.unary({ text: "" }))).toMatchObject({ code: "UNAVAILABLE", retryAfterMs: 1_000 });
  });

  test("answer NOT_A_METHOD where there is no handler, and where there is no such method", async () => {
    const { client, port } = await start({}, {}, { unary: openRules.unary! });
    expect(await codeOf(client.unary({ text: "" }))).toMatchObject({
      code: "NOT_A_METHOD",
      message: "/iterate.test.v1.EchoService/Unary is not served here",
    });
    expect(await bareCall(port, "/iterate.test.v1.EchoService/Other", Buffer.from("{}"))).toMatchObject({
      code: grpcStatus.UNIMPLEMENTED,
    });
  });

  test("refuse a request that is no message of its type", async () => {
    const { port } = await start(echoing);
    expect(await bareCall(port, EchoService.unary.path, Buffer.from("{broken"))).toMatchObject({
      code: grpcStatus.INVALID_ARGUMENT,
    });
  });
});

describe("callers", () => {
  test("reach a method by its row alone", async () => {
    const seen: CallContext["caller"][] = [];
    const remember = (_: Note, call: CallContext): Promise<Note> => {
      seen.push(call.caller);
      return Promise.resolve({ text: "" });
    };
    const trust = await echoTrust();
    const { connect } = await start({ unary: remember }, {}, { unary: { services: ["caller"], execution: "required" } });
    const execution = await trust.runner.mintExecution({
      owner: "prj_1",
      context: "/",
      code: "c",
      partition: 1,
      epoch: 1,
      cause: { chain: "x", depth: 0 },
      scope: [],
      principal: "usr_1",
      exp: Math.floor(Date.now() / 1000) + 30,
    });
    expect(await codeOf(connect().unary({ text: "" }))).toMatchObject({
      code: "FORBIDDEN",
      message: expect.stringContaining("needs an execution token") as string,
    });
    expect(await codeOf(connect({ trust: trust.runner }).unary({ text: "" }, { execution }))).toMatchObject({
      code: "FORBIDDEN",
      message: expect.stringContaining('"runner"') as string,
    });
    await connect().unary({ text: "" }, { execution });
    expect(seen).toMatchObject([{ service: "caller", principal: "usr_1", execution: { owner: "prj_1" } }]);
    for (const call of [connect().serverStream({ text: "" }), connect().bidi().responses])
      expect(await codeOf(call.next())).toMatchObject({ code: "FORBIDDEN" });
  });

  test("without a token, or with one for another service, are refused on every kind before their handler runs", async () => {
    let ran = 0;
    const count = (): never => {
      ran += 1;
      throw new Error("ran");
    };
    const trust = await echoTrust();
    const { connect, port } = await start({ unary: count, serverStream: count, clientStream: count, bidi: count });
    const misdirected = connect({ trust: trust.caller, audience: "runner" });
    const calls = [
      misdirected.unary({ text: "" }),
      misdirected.serverStream({ text: "" }).next(),
      misdirected.clientStream().response,
      misdirected.bidi().responses.next(),
    ];
    for (const error of await Promise.all(calls.map(codeOf))) expect(error).toMatchObject({ code: "UNAUTHENTICATED" });
    expect(await bareCall(port, EchoService.unary.path, Buffer.from("{}"), new Metadata())).toMatchObject({
      code: grpcStatus.UNAUTHENTICATED,
    });
    expect(ran).toBe(0);
  });

  test("of a public listener are proven its own way", async () => {
    const { connect } = await start(
      { unary: (_, call) => Promise.resolve({ text: call.caller.principal! }) },
      { authenticate: (call) => ({ service: "caller", principal: String(call.metadata.get("x-who")[0]) }) },
    );
    expect(await connect().unary({ text: "" }, { metadata: { "x-who": "usr_9" } })).toEqual({ text: "usr_9" });
  });
});

describe("message limits", () => {
  const wrapping = JSON.stringify({ text: "" }).length;
  test.each([
    [-1, true],
    [0, true],
    [1, false],
  ])("take a request of the limit %+d: %s, on both ends", async (extra, accepted) => {
    const text = "x".repeat(defaultMaxRequestBytes - wrapping + extra);
    const { client, connect } = await start({ unary: (request) => Promise.resolve({ text: String(request.text.length) }) });
    const lenient = connect({ maxRequestBytes: { [EchoService.unary.path]: 64 * 1_048_576 } });
    if (accepted) {
      expect(await client.unary({ text })).toEqual({ text: String(text.length) });
    } else {
      const refused = { code: "BATCH_TOO_LARGE", data: { bytes: defaultMaxRequestBytes + 1, limit: defaultMaxRequestBytes } };
      expect(await codeOf(client.unary({ text }))).toMatchObject(refused);
      expect(await codeOf(lenient.unary({ text }))).toMatchObject(refused);
      expect(await codeOf(client.bidi().send({ text }))).toMatchObject(refused);
    }
  });

  test("take more for the methods that carry events", async () => {
    const trust = await echoTrust();
    const server = createGrpcServer({
      name: "echo",
      listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 0 },
      log: createLog("echo", { write: () => {} }),
      trust: trust.echo,
    });
    server.add(
      ContextServiceService,
      {
        append: (request) =>
          Promise.resolve({
            receipts: request.events.map((event) => ({ offset: BigInt(event.payload!.length), createdAtUs: 0n, existing: false })),
          }),
      },
      { append: { services: ["caller"], execution: "allowed" } },
    );
    const client = createClient(ContextServiceClient, `127.0.0.1:${await server.start()}`, {
      trust: trust.caller,
      audience: "echo",
    });
    const events = (bytes: number) => [
      { type: "t", payload: Buffer.alloc(bytes), idempotencyKey: "", ephemeral: false, formatVersion: 0 },
    ];
    expect((await client.append({ appendId: "", events: events(16 * 1_048_576) })).receipts[0]!.offset).toBe(16_777_216n);
    expect(await codeOf(client.append({ appendId: "", events: events(17 * 1_048_576) }))).toMatchObject({
      code: "BATCH_TOO_LARGE",
    });
    client.close();
    await server.drain(0);
  });

  test("refuse to answer what no client takes", async () => {
    const { client } = await start({ unary: () => Promise.resolve({ text: "x".repeat(maxResponseBytes) }) });
    expect(await codeOf(client.unary({ text: "" }))).toMatchObject({ code: "INTERNAL" });
  });
});

describe("deadlines and cancellation", () => {
  const waiting = (seen: PromiseWithResolvers<CallContext>): EchoHandlers => ({
    unary: (_, call) => {
      seen.resolve(call);
      return new Promise(() => {});
    },
    serverStream: async function* (_, call) {
      yield { text: "first" };
      seen.resolve(call);
      await new Promise(() => {});
    },
  });
  const abortOf = async (call: CallContext): Promise<unknown> => {
    if (!call.signal.aborted) await once(call.signal, "abort");
    return (call.signal.reason as { code: string }).code;
  };

  test("a deadline ends the call on both sides", async () => {
    const seen = gate<CallContext>();
    const { client } = await start(waiting(seen));
    const failed = codeOf(client.unary({ text: "" }, { deadlineMs: 1_000 }));
    const call = await seen.promise;
    expect(call.deadlineMs).toBeGreaterThan(0);
    expect(call.deadlineMs).toBeLessThanOrEqual(1_000);
    // A request that was long under way has a later deadline here than at its client, whose leaving is then what is seen.
    expect(["DEADLINE_EXCEEDED", "CANCELLED"]).toContain(await abortOf(call));
    expect(await failed).toMatchObject({ code: "DEADLINE_EXCEEDED" });
  });

  test("a unary call has ten seconds when its caller says nothing, and the server's own when it brings none", async () => {
    const seen = gate<CallContext>();
    const { client, port } = await start(waiting(seen), { defaultDeadlineMs: 60 });
    const given = codeOf(client.unary({ text: "" }, { signal: AbortSignal.timeout(50) }));
    expect((await seen.promise).deadlineMs).toBeGreaterThan(9_000);
    await given;
    expect(await bareCall(port, EchoService.unary.path, Buffer.from('{"text":""}'))).toMatchObject({
      code: grpcStatus.DEADLINE_EXCEEDED,
    });
  });

  test("a caller that gives up is CANCELLED and its handler is told", async () => {
    const seen = gate<CallContext>();
    const { client } = await start(waiting(seen));
    const controller = new AbortController();
    const failed = codeOf(client.unary({ text: "" }, { signal: controller.signal }));
    const call = await seen.promise;
    controller.abort();
    expect(await failed).toMatchObject({ code: "CANCELLED" });
    expect(await abortOf(call)).toBe("CANCELLED");
    expect(await codeOf(client.unary({ text: "" }, { signal: controller.signal }))).toMatchObject({ code: "CANCELLED" });
  });

  test("leaving the loop of a stream cancels it and finishes its generator", async () => {
    const finished = gate();
    const { client, server } = await start({
      serverStream: async function* () {
        try {
          for (;;) yield { text: "again" };
        } finally {
          finished.resolve();
        }
      },
    });
    for await (const message of client.serverStream({ text: "" })) {
      expect(message.text).toBe("again");
      break;
    }
    await finished.promise;
    await expect.poll(() => server.inFlight).toBe(0);
  });

  test("a stream whose client leaves while its handler waits is told by its signal", async () => {
    const seen = gate<CallContext>();
    const { client, server } = await start(waiting(seen));
    const responses = client.serverStream({ text: "" });
    await responses.next();
    const call = await seen.promise;
    await responses.return!();
    expect(await abortOf(call)).toBe("CANCELLED");
    await expect.poll(() => server.inFlight).toBe(0);
  });

  test("a stream nobody reads and that fails harms nobody", async () => {
    const { client } = await start({
      serverStream: () => {
        throw codedError("NOT_FOUND", "gone");
      },
    });
    const unread = client.serverStream({ text: "" });
    await client.unary({ text: "" }).catch(() => {});
    expect(await codeOf(unread.next())).toMatchObject({ code: "NOT_FOUND" });
  });

  test("a connection that breaks under a call is UNAVAILABLE on every kind, with and without an answer before", async () => {
    const forever = new Promise<never>(() => {});
    const { client } = await start(
      {
        unary: () => forever,
        serverStream: async function* () {
          yield { text: "first" };
          await forever;
        },
        clientStream: () => forever,
        bidi: async function* () {
          yield { text: "first" };
          await forever;
        },
      },
      { maxConnectionAgeMs: 200, maxConnectionAgeGraceMs: 100 },
    );
    const [stream, talk] = [client.serverStream({ text: "" }), client.bidi()];
    await Promise.all([stream.next(), talk.responses.next()]);
    const broken = [client.unary({ text: "" }), client.clientStream().response, stream.next(), talk.responses.next()];
    for (const error of await Promise.all(broken.map(codeOf))) expect(error).toMatchObject({ code: "UNAVAILABLE" });
  });

  test("a server that is away is UNAVAILABLE, and the same client works when it is back", async () => {
    const first = await start(echoing);
    const client = first.connect();
    await client.unary({ text: "" });
    await first.server.drain(1_000);
    expect(await codeOf(client.unary({ text: "" }))).toMatchObject({ code: "UNAVAILABLE", data: { peer: "echo" } });
    await start(echoing, { listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: first.port } });
    await expect.poll(() => client.unary({ text: "back" }).catch(() => null), { timeout: 10_000 }).toEqual({ text: "back" });
  });
});

describe("back-pressure", () => {
  const block = "x".repeat(65_536);

  test("a slow reader slows the handler of a server stream", async () => {
    let produced = 0;
    const { client } = await start({
      serverStream: async function* () {
        for (; produced < 1_000; produced += 1) yield { text: block };
      },
    });
    const responses = client.serverStream({ text: "" });
    await responses.next();
    let before = -1;
    await expect
      .poll(
        () => {
          const same = before === produced;
          before = produced;
          return same;
        },
        { interval: 100 },
      )
      .toBe(true);
    expect(produced).toBeLessThan(400);
    let read = 1;
    for await (const _ of responses) read += 1;
    expect(read).toBe(1_000);
  });

  test.each(["generator", "raw"])("a slow %s handler slows the client of a stream", async (kind) => {
    const go = gate();
    let taken = 0;
    const { client } = await start({
      bidi:
        kind === "raw"
          ? raw<Note, Note>(
              (call) =>
                new Promise((resolve) => {
                  call.onRequest((request) => {
                    if (request === null) return resolve();
                    taken += 1;
                  });
                  call.pause();
                  void go.promise.then(() => call.resume());
                }),
            )
          : async function* (requests) {
              await go.promise;
              for await (const _ of requests) taken += 1;
            },
    });
    const talk = client.bidi();
    let sent = 0;
    const sending = (async () => {
      for (; sent < 800; sent += 1) await talk.send({ text: block });
      talk.end();
    })();
    let before = -1;
    await expect
      .poll(
        () => {
          const same = before === sent;
          before = sent;
          return same;
        },
        { interval: 100 },
      )
      .toBe(true);
    expect(sent).toBeLessThan(400);
    go.resolve();
    await sending;
    await talk.responses.next();
    expect(taken).toBe(800);
  });

  test("a raw handler answers in order, is paced by the client, and may fail", async () => {
    const { client } = await start({
      bidi: raw<Note, Note>(async (call) => {
        const done = gate();
        call.onRequest((request) => {
          if (request === null) return done.resolve();
          if (request.text === "fail") return done.reject(codedError("STREAM_PAUSED", "paused"));
          for (let i = 0; i < 3; i += 1) call.send({ text: `${request.text}${i}` });
        });
        await done.promise;
        await call.drained();
      }),
    });
    const talk = client.bidi();
    await talk.send({ text: "a" });
    await talk.send({ text: "b" });
    talk.end();
    expect(await collect(talk.responses)).toEqual(["a0", "a1", "a2", "b0", "b1", "b2"]);
    const failing = client.bidi();
    await failing.send({ text: "fail" });
    expect(await codeOf(failing.responses.next())).toMatchObject({ code: "STREAM_PAUSED" });
  });
});

describe("a drain", () => {
  test("finishes what is in flight and refuses what comes after", async () => {
    const go = gate();
    const reached = gate();
    const { client, server, connect } = await start({
      unary: async (request) => {
        reached.resolve();
        await go.promise;
        return request;
      },
    });
    const inFlight = client.unary({ text: "kept" });
    await reached.promise;
    const drained = server.drain(5_000);
    expect(await codeOf(connect().unary({ text: "late" }))).toMatchObject({ code: "UNAVAILABLE" });
    go.resolve();
    expect(await inFlight).toEqual({ text: "kept" });
    expect(await drained).toBe(0);
    expect(server.inFlight).toBe(0);
  });

  test("ends streams with UNAVAILABLE at once, after answering the requests they took", async () => {
    const { client, server } = await start({
      ...echoing,
      serverStream: async function* () {
        yield { text: "first" };
        await new Promise(() => {});
      },
    });
    const endless = client.serverStream({ text: "" });
    const talk = client.bidi();
    expect((await endless.next()).value).toEqual({ text: "first" });
    await talk.send({ text: "a" });
    expect((await talk.responses.next()).value).toEqual({ text: "A" });
    const startedAt = performance.now();
    expect(await server.drain(10_000)).toBe(0);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    for (const responses of [endless, talk.responses])
      expect(await codeOf(responses.next())).toMatchObject({ code: "UNAVAILABLE", retryAfterMs: 0 });
  });

  test("lets a stream that asked for it run to its own end", async () => {
    const { client, server } = await start(echoing, {}, { ...openRules, bidi: { ...openRules.bidi!, drain: "finish" } });
    const talk = client.bidi();
    await talk.send({ text: "a" });
    await talk.responses.next();
    const drained = server.drain(5_000);
    await talk.send({ text: "b" });
    talk.end();
    expect(await collect(talk.responses)).toEqual(["B"]);
    expect(await drained).toBe(0);
  });

  test("ends what is left at its bound, with an answer, and counts it", async () => {
    const reached = gate<CallContext>();
    const { client, server } = await start({
      unary: (_, call) => {
        reached.resolve(call);
        return new Promise(() => {});
      },
    });
    const stuck = codeOf(client.unary({ text: "" }));
    const call = await reached.promise;
    expect(await server.drain(100)).toBe(1);
    expect(await stuck).toMatchObject({ code: "UNAVAILABLE", message: expect.stringContaining("server stopped") as string });
    expect(call.signal.reason).toMatchObject({ code: "UNAVAILABLE" });
    expect(call.draining.aborted).toBe(true);
  });
});

describe("a listener", () => {
  test("names the variable of a busy port", async () => {
    const busy = createServer().listen(0, "127.0.0.1");
    await once(busy, "listening");
    const port = (busy.address() as { port: number }).port;
    await expect(startEcho(echoing, { listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port } })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining(`GRPC_LISTEN=127.0.0.1:${port}`) as string,
    });
    busy.close();
  });

  test("without a way to prove callers does not exist", () => {
    expect(() =>
      createGrpcServer({ name: "echo", listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 0 }, log: createLog("echo") }),
    ).toThrow("no way to prove its callers");
  });

  test("asks connections to reconnect when they are old, losing no call", async () => {
    const { client, port } = await start(echoing, { maxConnectionAgeMs: 100, maxConnectionAgeGraceMs: 1_000 });
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    const goaway = once(session, "goaway");
    let calls = 0;
    while (await Promise.race([goaway.then(() => false), client.unary({ text: "x" }).then(() => true)])) calls += 1;
    for (let i = 0; i < 50; i += 1) await client.unary({ text: "x" });
    expect(calls).toBeGreaterThan(0);
    session.destroy();
  });

  test("tells health of each service, and NOT_SERVING while it drains", async () => {
    const go = gate();
    const reached = gate();
    const { client, server, port } = await start({
      unary: async (request) => {
        reached.resolve();
        await go.promise;
        return request;
      },
    });
    const probe = createClient({ service: HealthService, serviceName: "grpc.health.v1.Health" }, `127.0.0.1:${port}`, {
      audience: "echo",
    });
    expect(await probe.check({ service: "" })).toEqual({ status: ServingStatus.SERVING });
    expect(await probe.check({ service: "iterate.test.v1.EchoService" })).toEqual({ status: ServingStatus.SERVING });
    expect(await codeOf(probe.check({ service: "other" }))).toMatchObject({ code: "NOT_FOUND" });
    expect(Object.keys((await probe.list({})).statuses).sort()).toEqual(["", "iterate.test.v1.EchoService"]);
    server.setServing(false);
    expect(await probe.check({ service: "" })).toEqual({ status: ServingStatus.NOT_SERVING });
    server.setServing(true);
    const watch = probe.watch({ service: "" });
    expect((await watch.next()).value).toEqual({ status: ServingStatus.SERVING });
    const inFlight = client.unary({ text: "" });
    await reached.promise;
    const drained = server.drain(5_000);
    expect((await watch.next()).value).toEqual({ status: ServingStatus.NOT_SERVING });
    expect((await watch.next()).done).toBe(true);
    go.resolve();
    await inFlight;
    await drained;
    probe.close();
  });

  test("describes its services to a client that has no stubs", async () => {
    const trust = await echoTrust();
    const server = createGrpcServer({
      name: "context",
      listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 0 },
      log: createLog("context"),
      trust: trust.echo,
      descriptorSet: readDescriptorSet(),
    });
    server.add(ContextServiceService, {}, {});
    const port = await server.start();
    const bytes = (value: Buffer): Buffer => value;
    const info = {
      path: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
      requestStream: true,
      responseStream: true,
      requestSerialize: bytes,
      requestDeserialize: bytes,
      responseSerialize: bytes,
      responseDeserialize: bytes,
    } as const;
    const client = createClient({ service: { info }, serviceName: "" }, `127.0.0.1:${port}`, { audience: "context" });
    const ask = client.info();
    /** Asks with one text field of ServerReflectionRequest; answers the bytes, in which names stand as they are. */
    const answer = async (field: number, text: string): Promise<string> => {
      await ask.send(Buffer.from([(field << 3) | 2, text.length, ...Buffer.from(text)]));
      return (await ask.responses.next()).value!.toString("latin1");
    };
    const services = await answer(7, "*");
    for (const name of ["grpc.health.v1.Health", "iterate.context.v1.ContextService"]) expect(services).toContain(name);
    expect(services).not.toContain("iterate.runner");
    const files = await answer(4, "iterate.context.v1.ContextService.Append");
    for (const name of ["iterate/context/v1/context.proto", "iterate/type/v1/event.proto"]) expect(files).toContain(name);
    ask.end();
    client.close();
    await server.drain(0);
  });

  test("tells of every finished call", async () => {
    const seen: string[] = [];
    const { client } = await start(
      { unary: (request) => (request.text === "" ? Promise.reject(codedError("NOT_FOUND", "x")) : Promise.resolve(request)) },
      { observe: (method, code, ms) => seen.push(`${method} ${code} ${ms >= 0}`) },
    );
    await client.unary({ text: "x" });
    await client.unary({ text: "" }).catch(() => {});
    expect(seen).toEqual(["/iterate.test.v1.EchoService/Unary OK true", "/iterate.test.v1.EchoService/Unary NOT_FOUND true"]);
  });
});

/** A call by plain grpc-js without deadline, for what our client never sends. */
async function bareCall(port: number, path: string, bytes: Buffer, metadata?: Metadata): Promise<ServiceError> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  if (metadata === undefined) {
    metadata = new Metadata();
    metadata.set("authorization", `Bearer ${await (await echoTrust()).caller.serviceToken("echo")}`);
  }
  try {
    return await new Promise((resolve, reject) =>
      client.makeUnaryRequest(
        path,
        (value: Buffer) => value,
        (value) => value,
        bytes,
        metadata,
        (error) => (error === null ? reject(new Error("it was accepted")) : resolve(error)),
      ),
    );
  } finally {
    client.close();
  }
}
