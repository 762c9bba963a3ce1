import { createHmac } from "node:crypto";
import { fileURLToPath } from "node:url";
import type { EventInput } from "@iterate-platform/proto/iterate/type/v1/event";
import type { StreamEventsResponse } from "@iterate-platform/proto/iterate/context/v1/context";
import { SignatureScheme } from "@iterate-platform/proto/iterate/context/v1/secret";
import type { ExecutionClaims } from "@iterate-platform/service/caller";
import { ContextLog } from "@iterate-platform/service/context-log";
import { newId, partitionOf, uuidv7 } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { eventually, useNats, useTestDatabase } from "@iterate-platform/testing";
import type { StreamEvent } from "iterate/api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ContextProcess, Deployment, type Clients } from "./context-process.js";

const database = useTestDatabase();
const nats = useNats({ jetstream: true });
const owner = newId("prj");
let deployment: Deployment;
let one: ContextProcess;
let two: ContextProcess;
let ingress: Clients;
let other: Clients;
beforeAll(async () => {
  await migrate({ url: database.url, dir: fileURLToPath(new URL("../migrations", import.meta.url)) });
  deployment = await Deployment.make();
  const options = { deployment, databaseUrl: database.url, natsUrl: nats.url };
  [one, two] = await Promise.all([ContextProcess.start(options), ContextProcess.start(options)]);
  [ingress, other] = [one.as("ingress"), two.as("ingress")];
});
afterAll(async () => {
  await Promise.all([one?.stop(), two?.stop()]);
  deployment?.remove();
});

let contexts = 0;
const newContext = () => ({ owner, path: `/service/${++contexts}` });
const input = (n: number, type = "test/a"): EventInput => ({
  type,
  payload: Buffer.from(`{"n":${n}}`),
  metadata: undefined,
  idempotencyKey: "",
  expectedOffset: undefined,
  processor: undefined,
  ephemeral: false,
  formatVersion: 0,
});
const append = async (clients: Clients, context: { owner: string; path: string }, ...events: EventInput[]): Promise<number> =>
  Number((await clients.context.append({ context, appendId: uuidv7(), events })).receipts.at(-1)!.offset);
const all = { afterOffset: 0n, limit: 0, types: [] as string[], includeEphemeral: false };

describe("the service over gRPC", () => {
  test("answers through every process what was acknowledged through any", async () => {
    const context = newContext();
    for (let n = 1; n <= 60; n += 1) {
      const [writer, reader] = n % 2 === 0 ? [ingress, other] : [other, ingress];
      const offset = await append(writer, context, input(n));
      const page = await reader.context.readEvents({ ...all, context, afterOffset: BigInt(offset - 1) });
      expect(page).toMatchObject({ scannedThroughOffset: BigInt(offset), atHead: true });
      expect(await reader.context.describeContext({ context })).toMatchObject({ headOffset: BigInt(offset), commitNo: BigInt(n) });
      expect(
        await reader.context.waitForEvent({
          context,
          types: ["test/a"],
          payload: Buffer.from(`{"n":${n}}`),
          afterOffset: 0n,
          timeoutMs: 1_000,
        }),
      ).toMatchObject({ event: { offset: BigInt(offset) } });
    }
  });

  test("streams the past and what comes, and describes a context and one not yet born", async () => {
    const context = newContext();
    expect(await ingress.context.describeContext({ context })).toMatchObject({
      headOffset: 0n,
      commitNo: 0n,
      createdAtUs: 0n,
      subscriptions: [],
      config: undefined,
    });
    await append(ingress, context, input(1), input(2));
    const seen: bigint[] = [];
    const stream = other.context.streamEvents({ context, afterOffset: 0n, types: ["test/a"], includeEphemeral: false });
    const reading = (async () => {
      for await (const { events } of stream) {
        seen.push(...events.map(({ offset }) => offset));
        if (seen.length >= 4) return;
      }
    })();
    await eventually(() => seen.length === 2);
    await append(ingress, context, input(3), input(4, "test/b"), input(5));
    await reading;
    expect(seen).toEqual([2n, 3n, 4n, 6n]);
    const described = await other.context.describeContext({ context });
    expect(described).toMatchObject({ headOffset: 6n, commitNo: 2n, lastControl: 1n });
    expect(described.createdAtUs).toBeGreaterThan(1_700_000_000_000_000n);
  });

  test("answers ephemeral events as they were taken, tells them through every process and stores none", async () => {
    const context = newContext();
    const log = (clients: Clients) => new ContextLog(clients.context, context, { principal: "usr_1" });
    await log(ingress).append([{ type: "test/a" }]);
    const frame = { type: "test/progress-frame", payload: { percent: 40 }, metadata: ["m"], ephemeral: true };
    const seen: StreamEvent[] = [];
    const following = (async () => {
      for await (const { events } of log(other).follow({ afterOffset: 0, includeEphemeral: true })) {
        seen.push(...events);
        if (seen.length >= 6) return;
      }
    })();
    await eventually(() => seen.length === 2);
    const waiting = log(other).wait({ type: "test/progress-frame" });
    let frames: StreamEvent[] = [];
    // The first ones may come before the broker has the subscription of the other process.
    await eventually(async () => {
      frames = await log(ingress).append([frame, { type: "test/a" }, frame]);
      return seen.length >= 6;
    });
    await following;
    expect(frames).toMatchObject([
      { ephemeral: true, payload: { percent: 40 }, metadata: ["m"] },
      { type: "test/a" },
      { ephemeral: true },
    ]);
    expect(frames[0]!.source).toEqual({ origin: "/", cause: frames[1]!.source.cause, principal: "usr_1" });
    const told = seen.find(({ ephemeral }) => ephemeral === true)!;
    expect(Object.keys(told).toSorted()).toEqual(Object.keys(frames[0]!).toSorted());
    expect(seen.map(({ offset }) => offset)).toEqual(seen.map(({ offset }) => offset).toSorted((a, b) => a - b));
    expect(await waiting).toMatchObject({ ephemeral: true, type: "test/progress-frame" });
    const plain = await log(ingress).read();
    expect(plain.events.some(({ ephemeral }) => ephemeral === true)).toBe(false);
    expect(plain.ephemeralsIncluded).toBeUndefined();
    const here = await log(ingress).read({ includeEphemeral: true });
    expect(here).toMatchObject({ ephemeralsIncluded: true, atHead: true });
    expect(here.events.at(-1)).toEqual(frames[2]);
    expect(here.scannedThroughOffset).toBe(frames[1]!.offset);
    expect(await log(other).read({ includeEphemeral: true })).toMatchObject({ ephemeralsIncluded: false, events: plain.events });
  });

  test("describes what a context was at any of its offsets, through every process", async () => {
    const context = newContext();
    const log = (clients: Clients) => new ContextLog(clients.context, context, { principal: "usr_1" });
    const configured = (name: string) => ({
      type: "events.iterate.com/itx/subscription-configured",
      payload: { name, target: ["itx", ["processor", "facet:x"]] },
    });
    await log(ingress).append([configured("a")]);
    await log(other).append([{ type: "test/a" }, configured("b")]);
    const namesAt = async (clients: Clients, atOffset?: bigint) => {
      const { subscriptions, ...described } = await clients.context.describeContext({ context, atOffset });
      expect(described).toMatchObject({ headOffset: 4n, commitNo: 2n, asOfOffset: atOffset ?? 4n });
      return subscriptions.map(({ name }) => name);
    };
    for (const clients of [ingress, other]) {
      expect(await namesAt(clients, 0n)).toEqual([]);
      expect(await namesAt(clients, 1n)).toEqual([]);
      expect(await namesAt(clients, 3n)).toEqual(["a"]);
      expect(await namesAt(clients, 4n)).toEqual(["a", "b"]);
      expect(await namesAt(clients)).toEqual(["a", "b"]);
      for (const atOffset of [5n, -1n, 2n ** 53n])
        await expect(clients.context.describeContext({ context, atOffset })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    }
    const unborn = newContext();
    expect(await other.context.describeContext({ context: unborn, atOffset: 0n })).toMatchObject({ headOffset: 0n });
    await expect(other.context.describeContext({ context: unborn, atOffset: 1n })).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  test("lists the children of a context, whoever gave birth to them", async () => {
    const context = newContext();
    const child = (name: string) => ({ owner, path: `${context.path}/${name}` });
    await append(ingress, child("a"), input(1));
    await append(other, child("b"), input(1));
    await append(other, { owner, path: `${context.path}/b/below` }, input(1));
    const list = (after: string, limit: number) => ingress.context.listChildren({ context, after, limit });
    const first = await list("", 1);
    expect(first).toMatchObject({ children: [{ path: child("a").path }], next: child("a").path });
    const second = await list(first.next, 1_000);
    expect(second).toMatchObject({ children: [{ path: child("b").path }], next: "" });
    expect(second.children[0]!.createdAtUs).toBeGreaterThan(1_700_000_000_000_000n);
    for (const [after, limit] of [
      ["", 1_001],
      ["", -1],
      ["/elsewhere", 1],
      [`${context.path}a`, 1],
    ] as const)
      await expect(list(after, limit)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(list("no path", 1)).rejects.toMatchObject({ code: "INVALID_CONTEXT" });
  });

  test("describes a subscription as it was configured", async () => {
    const context = newContext();
    const payload = {
      name: "publication",
      target: ["itx", "builtins", "processors", ["get", "publication"]],
      consumes: ["events.iterate.com/repo/commit-completed"],
      afterOffset: 0,
    };
    await append(ingress, context, {
      ...input(0, "events.iterate.com/itx/subscription-configured"),
      payload: Buffer.from(JSON.stringify(payload)),
    });
    const { subscriptions } = await other.context.describeContext({ context });
    expect(subscriptions).toEqual([
      {
        name: "publication",
        target: JSON.stringify(payload.target),
        consumes: payload.consumes,
        afterOffset: 0n,
        configuredAtOffset: 2n,
        haltedAtOffset: 0n,
        resumedAtOffset: 0n,
        resumedAfterOffset: undefined,
        missedBelowOffset: 0n,
      },
    ]);
  });

  test("refuses bounds one beyond, before it asks the log", async () => {
    const context = newContext();
    await append(ingress, context, input(1));
    const read = (change: Partial<typeof all>) => ingress.context.readEvents({ ...all, context, ...change });
    for (const limit of [-1, 1_001]) await expect(read({ limit })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    for (const limit of [0, 1, 1_000])
      await expect(read({ limit })).resolves.toMatchObject({ events: [{ offset: 1n }, {}].slice(0, limit === 1 ? 1 : 2) });
    await expect(read({ afterOffset: -1n })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(read({ afterOffset: 2n ** 53n })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(read({ types: Array.from({ length: 101 }, () => "t") })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    const wait = (change: object) =>
      ingress.context.waitForEvent({ context, types: ["t"], payload: undefined, afterOffset: undefined, timeoutMs: 1, ...change });
    for (const timeoutMs of [-1, 120_001]) await expect(wait({ timeoutMs })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(wait({ types: [] })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(wait({ payload: Buffer.from(`"${" ".repeat(65_535)}"`) })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(wait({ payload: Buffer.from("{") })).rejects.toMatchObject({ code: "INVALID_JSON" });
    await expect(wait({})).rejects.toMatchObject({ code: "WAIT_TIMEOUT" });
    await expect(ingress.context.readEvents({ ...all, context: { owner: "prj_x", path: "/" } })).rejects.toMatchObject({
      code: "INVALID_CONTEXT",
    });
    const { feed } = one.as("runner");
    for (const partition of [-1, 256])
      await expect(feed.listCommits({ partition, after: "", limit: 0 })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    for (const limit of [-1, 1_001])
      await expect(feed.listCommits({ partition: 0, after: "", limit })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(feed.listCommits({ partition: 0, after: "x", limit: 0 })).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  test("answers the feed of a partition to the runner", async () => {
    const context = newContext();
    await append(ingress, context, input(1));
    const { feed } = two.as("runner");
    const partition = partitionOf(context.owner, context.path);
    const page = await eventually(async () => {
      const answer = await feed.listCommits({ partition, after: "", limit: 1_000 });
      return answer.atHead && answer;
    });
    expect(page.commits.filter((commit) => commit.context!.path === context.path)).toMatchObject([
      { context, partition, commitNo: 1n, firstOffset: 1n, lastOffset: 2n, lastControl: 1n },
    ]);
  });

  test("admits nobody a rule does not name", async () => {
    const context = newContext();
    await append(ingress, context, input(1));
    const [telemetry, bundler, runner] = [one.as("telemetry"), one.as("bundler"), one.as("runner")];
    await expect(telemetry.context.readEvents({ ...all, context })).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(bundler.feed.listCommits({ partition: 0, after: "", limit: 0 })).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(runner.secret.set({ owner, path: "/secrets/a", material: Buffer.from("a"), origins: [] })).rejects.toMatchObject({
      code: "FORBIDDEN",
    });
    await expect(
      runner.secret.verify({
        owner,
        path: "/secrets/a",
        scheme: SignatureScheme.SIGNATURE_SCHEME_HMAC_SHA256,
        payload: Buffer.alloc(0),
        signature: Buffer.alloc(0),
      }),
    ).rejects.toMatchObject({ code: "FORBIDDEN" });
    const claims = (of: string): ExecutionClaims => ({
      owner: of,
      context: "/",
      code: "config@1",
      partition: 0,
      epoch: 1,
      cause: { chain: "c", depth: 0 },
      scope: [],
      exp: Math.floor(Date.now() / 1_000) + 60,
    });
    const execution = await deployment.trust("runner").mintExecution(claims(owner));
    const foreign = await deployment.trust("runner").mintExecution(claims(newId("prj")));
    await expect(runner.context.readEvents({ ...all, context }, { execution })).resolves.toMatchObject({ atHead: true });
    await expect(runner.context.readEvents({ ...all, context }, { execution: foreign })).rejects.toMatchObject({
      code: "FORBIDDEN",
    });
    await expect(
      runner.context.streamEvents({ context, afterOffset: 0n, types: [], includeEphemeral: false }, { execution: foreign }).next(),
    ).rejects.toMatchObject({ code: "FORBIDDEN" });
  });

  test("verifies signatures by a secret that is in no log line, through any process", async () => {
    const material = `plain-${uuidv7()}`;
    const path = "/secrets/github-webhook-a";
    const payload = Buffer.alloc(6_000_000, "x");
    const verify = (clients: Clients, signature: Buffer, body = payload) =>
      clients.secret.verify({ owner, path, scheme: SignatureScheme.SIGNATURE_SCHEME_HMAC_SHA256, payload: body, signature });
    const signature = createHmac("sha256", material).update(payload).digest();
    await expect(verify(other, signature)).rejects.toMatchObject({ code: "SECRET_NOT_SET" });
    expect(await ingress.secret.set({ owner, path, material: Buffer.from(material), origins: ["https://api.github.com"] })).toEqual(
      { offset: 2n },
    );
    expect(await verify(other, signature)).toEqual({ valid: true });
    expect(await verify(ingress, signature)).toEqual({ valid: true });
    expect(await verify(other, signature.subarray(1))).toEqual({ valid: false });
    const set = (change: object) => ingress.secret.set({ owner, path, material: Buffer.from("a"), origins: [], ...change });
    for (const size of [0, 65_537])
      await expect(set({ material: Buffer.alloc(size, 1) })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    for (const size of [1, 65_536]) await expect(set({ material: Buffer.alloc(size, 1) })).resolves.toBeDefined();
    for (const wrong of ["/secrets", "/secrets/", "/secrets/a/b", "/a"])
      await expect(set({ path: wrong })).rejects.toMatchObject({ code: "INVALID_CONTEXT" });
    for (const wrong of ["https://a.example/", "a.example", "HTTPS://a.example", "ftp://a.example"])
      await expect(set({ origins: [wrong] })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(verify(ingress, signature, Buffer.alloc(16_777_217))).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(verify(ingress, signature, Buffer.alloc(16_777_216))).resolves.toEqual({ valid: false });
    await expect(
      ingress.secret.verify({ owner, path, scheme: SignatureScheme.SIGNATURE_SCHEME_UNSPECIFIED, payload, signature }),
    ).rejects.toMatchObject({ code: "INVALID_INPUT" });
    const written = [...one.lines, ...two.lines].join("\n");
    for (const spelling of [material, Buffer.from(material).toString("base64").slice(0, -2), Buffer.from(material).toString("hex")])
      expect(written).not.toContain(spelling);
  });

  test("holds slow readers of a large backlog at bounded memory, and loses none of them", async () => {
    const context = newContext();
    const body = Buffer.from(JSON.stringify("x".repeat(40_000)));
    let last = 0;
    for (let batch = 0; batch < 4; batch += 1)
      last = await append(ingress, context, ...Array.from({ length: 300 }, () => ({ ...input(0), payload: body })));
    const before = await one.metric('process_memory_usage_bytes{kind="rss"');
    const clients = one.as("runner");
    const streams = Array.from({ length: 12 }, () =>
      clients.context.streamEvents({ context, afterOffset: 0n, types: [], includeEphemeral: false }),
    );
    const first = await Promise.all(streams.map(async (stream) => (await stream.next()).value!.events.length));
    expect(Math.min(...first)).toBeGreaterThan(0);
    await append(ingress, context, input(1));
    const during = await one.metric('process_memory_usage_bytes{kind="rss"');
    // A few pages of half a megabyte are held for each reader, of the 576 MB that wait for all of them.
    expect(during - before).toBeLessThan(200_000_000);
    const rest = await Promise.all(streams.slice(0, 3).map((stream) => countTo(stream, last + 1)));
    expect(rest.map((count, at) => count + first[at]!)).toEqual([last + 1, last + 1, last + 1]);
    for (const stream of streams) await stream.return?.(undefined);
    await eventually(async () => (await one.metric("iterate_context_streams_open")) === 0);
    expect(await one.metric("iterate_context_live_held_bytes")).toBe(0);
  }, 90_000);
});

describe("the end of a process", () => {
  test("answers what is under way, sends streams and waiters elsewhere, and leaves nothing", async () => {
    const process = await ContextProcess.start({ deployment, databaseUrl: database.url, natsUrl: nats.url });
    const clients = process.as("ingress");
    const context = newContext();
    await append(clients, context, input(0));
    expect((await process.admin("/readyz")).status).toBe(200);
    const stream = clients.context.streamEvents({ context, afterOffset: undefined, types: [], includeEphemeral: false });
    await stream.next();
    const streamEnd = countTo(stream, Infinity).catch((error: unknown) => error);
    const waitEnd = clients.context
      .waitForEvent({ context, types: ["never"], payload: undefined, afterOffset: undefined, timeoutMs: 0 }, { deadlineMs: 60_000 })
      .catch((error: unknown) => error);
    await eventually(async () => (await process.metric("iterate_context_waiters")) === 1);
    const appends = Array.from({ length: 200 }, (_, n) => append(clients, context, input(n + 1)).catch((error: unknown) => error));
    await Promise.race(appends);
    const exit = await process.terminate();
    expect(exit).toEqual({ code: 0, signal: null });
    expect(await streamEnd).toMatchObject({ code: "UNAVAILABLE" });
    expect(await waitEnd).toMatchObject({ code: "UNAVAILABLE" });
    const answered = (await Promise.all(appends)).filter((answer) => typeof answer === "number");
    const page = await other.context.readEvents({ ...all, context, limit: 1_000 });
    // What was not answered may be there or not; what was is.
    expect(page.events.length).toBeGreaterThanOrEqual(answered.length + 2);
    for (const offset of answered) expect(page.events.some((event) => event.offset === BigInt(offset))).toBe(true);
    expect(process.lines.at(-1)).toContain('"stopped"');
  });

  test("is ready without a broker, and says so when it cannot read its keys", async () => {
    const alone = await ContextProcess.start({ deployment, databaseUrl: database.url, natsUrl: "nats://127.0.0.1:1" });
    expect((await alone.admin("/readyz")).status).toBe(200);
    const context = newContext();
    const clients = alone.as("ingress");
    const stream = clients.context.streamEvents({ context, afterOffset: 0n, types: [], includeEphemeral: false });
    await stream.next();
    await append(ingress, context, input(1));
    expect((await stream.next()).value!.events).toHaveLength(2);
    expect((await alone.terminate()).code).toBe(0);
    await expect(
      ContextProcess.start({ deployment, databaseUrl: database.url, natsUrl: nats.url, env: { ITERATE_SECRET_KEYS: "{}" } }),
    ).rejects.toThrow(/ITERATE_SECRET_KEYS does not have the form/);
  });
});

/** Reads until everything up to `last` was sent; answers how many events that were. */
async function countTo(stream: AsyncIterable<StreamEventsResponse>, last: number): Promise<number> {
  let count = 0;
  for await (const page of stream) {
    count += page.events.length;
    if (Number(page.scannedThroughOffset) >= last) break;
  }
  return count;
}
