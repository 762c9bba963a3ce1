import type { AppendOutcome } from "@iterate-platform/proto/iterate/context/v1/context";
import { fromStatus } from "@iterate-platform/service/status";
import { eventually, useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { migrateLog, owner, readLog, startEngine, type TestEngine } from "../log/engine.fixture.js";
import { appendOf, messageOf, startAppendServer, type AppendServer, type ContextClient } from "./append.fixture.js";
import { streamWindow } from "./append-stream.js";

const database = useTestDatabase();
let engine: TestEngine;
let server: AppendServer;
let ingress: ContextClient;
let runner: ContextClient;
let path: string;
let count = 0;

beforeAll(async () => {
  await migrateLog(database.url);
  engine = startEngine({ url: database.url });
  server = await startAppendServer(engine);
  ingress = server.clientOf("ingress");
  runner = server.clientOf("runner");
});
afterAll(async () => {
  await server.stop();
  await engine.close();
});
beforeEach(() => void (path = `/api/${(count += 1)}`));

const execution = (fields: Partial<{ context: string; code: string; principal: string; depth: number }> = {}): Promise<string> =>
  server.trusts.runner.mintExecution({
    owner,
    context: fields.context ?? "/x",
    code: fields.code ?? "config@digest",
    partition: 1,
    epoch: 1,
    cause: { chain: "the chain", depth: fields.depth ?? 2 },
    scope: [],
    exp: Math.floor(Date.now() / 1000) + 60,
    ...(fields.principal === undefined ? {} : { principal: fields.principal }),
  });

/** `offset` of what landed, `code` of what was refused. */
const short = ({ outcome }: AppendOutcome): number | string =>
  outcome?.$case === "response" ? Number(outcome.value.receipts[0]?.offset ?? 0) : fromStatus(outcome!.value, "context").code;

describe("Append", () => {
  it("answers a receipt for each event", async () => {
    const before = Date.now() * 1000;
    const { receipts } = await ingress.append(appendOf(path, [1, 2]));
    expect(receipts.map(({ offset, existing }) => [offset, existing])).toEqual([
      [2n, false],
      [3n, false],
    ]);
    expect(Number(receipts[0]!.createdAtUs)).toBeGreaterThan(before - 60_000_000);
  });

  it("[iterate-17] stamps what it was told by the caller's credentials and by nothing in the request", async () => {
    await ingress.append(appendOf(path, ["webhook"]));
    await ingress.append(appendOf(path, ["person"]), { principal: "usr_1" });
    await runner.append(
      appendOf(path, ["code"], {
        processor: { slug: "triage", version: "3", whileProcessingOffset: 2n, whileProcessingType: "t" },
      }),
      { execution: await execution({ principal: "usr_2" }) },
    );
    await runner.append(appendOf(path, ["builtin"]), {
      execution: await execution({ code: "builtin:publication", context: "/repos/config" }),
    });
    const [, webhook, person, code, builtin] = (await readLog(engine.pool, path)).map(({ source }) => source);
    expect(webhook).toMatchObject({
      origin: path,
      platform: true,
      cause: { depth: 0, chain: expect.stringMatching(/^\d{4}-.*Z with service ~[a-z0-9]+$/) as string },
    });
    expect(person).toEqual({
      origin: "/",
      principal: "usr_1",
      cause: { depth: 0, chain: expect.stringContaining(" with person ~") as string },
    });
    expect(code).toEqual({
      origin: "/x",
      principal: "usr_2",
      cause: { chain: "the chain", depth: 2 },
      processor: { slug: "triage", version: "3", whileProcessing: { offset: 2, type: "t" } },
    });
    expect(builtin).toEqual({ origin: "/repos/config", cause: { chain: "the chain", depth: 2 }, platform: true });
  });

  it("is not for every service", async () => {
    await expect(server.clientOf("telemetry").append(appendOf(path, [1]))).rejects.toMatchObject({ code: "FORBIDDEN" });
  });

  it.each([
    ["no context", { context: undefined }, "INVALID_CONTEXT"],
    ["a malformed append id", { appendId: "7" }, "INVALID_INPUT"],
  ])("refuses %s", async (_, fields, code) => {
    await expect(ingress.append({ ...appendOf(path, [1]), ...fields })).rejects.toMatchObject({ code });
  });

  it("refuses an expected offset beyond what JSON can say", async () => {
    await expect(ingress.append(appendOf(path, [1], { expectedOffset: 2n ** 53n }))).rejects.toMatchObject({
      code: "INVALID_INPUT",
    });
  });

  it("makes an append id where the client brings none", async () => {
    expect((await ingress.append({ ...appendOf(path, [1]), appendId: "" })).receipts).toHaveLength(1);
  });
});

describe("AppendStream", () => {
  const collect = async (
    responses: AsyncIterable<{ outcomes: AppendOutcome[] }>,
  ): Promise<{ outcomes: AppendOutcome[]; messages: number }> => {
    const outcomes: AppendOutcome[] = [];
    let messages = 0;
    for await (const response of responses) {
      messages += 1;
      outcomes.push(...response.outcomes);
    }
    return { outcomes, messages };
  };

  it("answers in order, many outcomes in a message", async () => {
    const call = ingress.appendStream();
    for (let message = 0; message < 10; message += 1) {
      await call.send(messageOf(Array.from({ length: 50 }, (_, index) => appendOf(`${path}/${(message + index) % 7}`, [index]))));
    }
    call.end();
    const { outcomes, messages } = await collect(call.responses);
    expect(outcomes).toHaveLength(500);
    expect(outcomes.every(({ outcome }) => outcome?.$case === "response")).toBe(true);
    expect(messages).toBeLessThan(100);
  });

  it("keeps the order of appends to one context", async () => {
    const call = ingress.appendStream();
    await call.send(messageOf(Array.from({ length: 300 }, (_, index) => appendOf(path, [index]))));
    call.end();
    const { outcomes } = await collect(call.responses);
    expect(outcomes.map(short)).toEqual(Array.from({ length: 300 }, (_, index) => index + 2));
  });

  it("goes on after a refusal", async () => {
    const call = ingress.appendStream();
    await call.send(
      messageOf([appendOf(path, [1]), appendOf(path, [2], { expectedOffset: 9n }), appendOf("no path", [3]), appendOf(path, [4])]),
    );
    call.end();
    expect((await collect(call.responses)).outcomes.map(short)).toEqual([2, "OFFSET_CONFLICT", "INVALID_CONTEXT", 3]);
  });

  it("told to stop on errors ends after the refusal and tries nothing that follows, in this message or a later one", async () => {
    const call = ingress.appendStream();
    await call.send(
      messageOf([appendOf(path, [1]), appendOf(path, [2], { expectedOffset: 9n }), appendOf(path, [3])], { stopOnError: true }),
    );
    await call.send(messageOf([appendOf(path, [4])]));
    const { outcomes } = await collect(call.responses);
    expect(outcomes.map(short)).toEqual([2, "OFFSET_CONFLICT"]);
    expect((await readLog(engine.pool, path)).map(({ payload }) => payload)).toEqual([expect.any(String), "1"]);
  });

  it("takes each append under its own execution token, and refuses one that is not the runner's", async () => {
    const call = runner.appendStream();
    await call.send(messageOf([appendOf(path, [1])], { execution: await execution({ context: "/a" }) }));
    await call.send(messageOf([appendOf(path, [2])], { execution: "not.a.token" }));
    await call.send(messageOf([appendOf(path, [3])], { execution: await execution({ context: "/b" }) }));
    await call.send(messageOf([appendOf(path, [4])]));
    call.end();
    expect((await collect(call.responses)).outcomes.map(short)).toEqual([2, "UNAUTHENTICATED", 3, 4]);
    expect((await readLog(engine.pool, path)).map(({ source }) => source.origin)).toEqual([path, "/a", "/b", path]);
  });

  it("stops reading while its window is full and goes on when it drains", async () => {
    await ingress.append(appendOf(path, [0]));
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const disarm = engine.failpoints.on("append.before-commit", () => held);
    const call = ingress.appendStream();
    const total = 12_000;
    const sending = (async () => {
      for (let sent = 0; sent < total; sent += 100)
        await call.send(messageOf(Array.from({ length: 100 }, (_, index) => appendOf(path, [sent + index]))));
      call.end();
    })();
    await eventually(() => engine.writer.waiting >= streamWindow.appends);
    const most = engine.writer.waiting;
    expect(most).toBeLessThan(streamWindow.appends + 1_000);
    disarm();
    release();
    const { outcomes } = await collect(call.responses);
    await sending;
    expect(outcomes.map(short)).toEqual(Array.from({ length: total }, (_, index) => index + 3));
  });

  it("counts the bytes of its window too", async () => {
    await ingress.append(appendOf(path, [0]));
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const disarm = engine.failpoints.on("append.before-commit", () => held);
    const call = ingress.appendStream();
    const body = "x".repeat(200_000);
    const sending = (async () => {
      for (let sent = 0; sent < 60; sent += 1) await call.send(messageOf([appendOf(path, [body])]));
      call.end();
    })();
    await eventually(() => engine.writer.waiting >= 21);
    expect(engine.writer.waiting).toBeLessThan(30);
    disarm();
    release();
    expect((await collect(call.responses)).outcomes.map(short)).toEqual(Array.from({ length: 60 }, (_, index) => index + 3));
    await sending;
  });
});
