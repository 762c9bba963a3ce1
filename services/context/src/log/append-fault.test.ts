/** What an append survives: cut connections, a killed process, a spoiled group, a rival that is always faster, a restored log. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { eventually, FaultProxy, useTestDatabase } from "@iterate-platform/testing";
import { partitionOf, uuidv7 } from "@iterate-platform/service/ids";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { itx } from "iterate/events";
import type { StorableEvent } from "./contract.js";
import { address, code, event, migrateLog, owner, readLog, service, startEngine, type TestEngine } from "./engine.fixture.js";
import { nameOf } from "./head-cache.js";
import type { LogLane, LogStore } from "./log-store.js";
import { restoreGap } from "./plan.js";

const database = useTestDatabase();
let direct: TestEngine;
let path: string;
let count = 0;

beforeAll(async () => {
  await migrateLog(database.url);
  direct = startEngine({ url: database.url });
});
afterAll(() => direct.close());
beforeEach(() => void (path = `/fault/${(count += 1)}`));

const offsetsOf = async (): Promise<number[]> => (await readLog(direct.pool, path)).map(({ offset }) => offset);

describe("a cut connection", () => {
  let proxy: FaultProxy;
  let engine: TestEngine;
  beforeEach(async () => {
    proxy = await FaultProxy.start(database.url);
    engine = startEngine({ url: proxy.url(database.url) });
  });
  afterEach(async () => {
    await proxy.heal();
    await engine.close();
    proxy.stop();
  });

  it("between a commit and its answer loses and repeats nothing: every append of the group is found by its id", async () => {
    await engine.append(path, [{}]);
    const cut = proxy.cutAtAnswer({ afterClientText: "cut me here" });
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        engine.append(path, [{ payload: index === 25 ? "cut me here" : index }, { payload: "second" }]),
      ),
    );
    await cut;
    expect(answers.flat().map(({ offset }) => offset)).toEqual(Array.from({ length: 100 }, (_, index) => index + 3));
    expect(await offsetsOf()).toEqual(Array.from({ length: 102 }, (_, index) => index + 1));
    expect(engine.writer.counters).toMatchObject({ failures: 1, foundByAppendId: 50 });
  });

  it("before the statement arrives is tried again, once", async () => {
    await engine.append(path, [{}]);
    engine.failpoints.on("append.before-commit", () => {
      engine.failpoints.set("");
      proxy.reset();
    });
    expect(await engine.append(path, [{}])).toMatchObject([{ offset: 3 }]);
    expect(await offsetsOf()).toEqual([1, 2, 3]);
  });

  it("in the birth of a context leaves one context", async () => {
    const cut = proxy.cutAtAnswer({ afterClientText: "first of all" });
    expect(await engine.append(path, [{ payload: "first of all" }])).toMatchObject([{ offset: 2 }]);
    await cut;
    expect(await offsetsOf()).toEqual([1, 2]);
  });

  it("that stays cut ends in UNAVAILABLE, and the same append works when the database is back", async () => {
    await engine.append(path, [{}]);
    proxy.refuse();
    proxy.reset();
    const appendId = uuidv7();
    await expect(engine.append(path, [{ payload: "late" }], { appendId })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await proxy.heal();
    expect(await engine.append(path, [{ payload: "late" }], { appendId })).toMatchObject([{ offset: 3 }]);
  });
});

describe("a process killed", () => {
  it.each([
    ["before its commit is sent", "append.before-commit", false],
    ["between its commit and the answer", "append.after-commit", true],
  ])("%s: the client's repeat through another process lands once", async (_, failpoint, isCommitted) => {
    const appendId = uuidv7();
    const script = fileURLToPath(new URL("./killed-append.fixture.ts", import.meta.url));
    const child = spawn(
      process.execPath,
      ["--conditions=iterate-source", "--import", import.meta.resolve("tsx"), script, database.url, path, appendId],
      {
        env: { ...process.env, FAILPOINTS: `${failpoint}=kill@2` },
        stdio: ["ignore", "ignore", "inherit"],
      },
    );
    expect(await once(child, "exit")).toEqual([null, "SIGKILL"]);
    await eventually(async () => (await offsetsOf()).length === (isCommitted ? 4 : 2), { timeoutMs: 5_000 });
    expect(await direct.append(path, [{ payload: 1 }, { payload: 2 }], { appendId })).toMatchObject([{ offset: 3 }, { offset: 4 }]);
    expect(await offsetsOf()).toEqual([1, 2, 3, 4]);
  });
});

describe("a member that spoils its statement", () => {
  /** Passes no door: bytes that are not UTF-8. */
  const poison: StorableEvent = {
    type: "example.com/poison",
    payload: Buffer.from([0x22, 0xff, 0x22]),
    metadata: null,
    idempotencyKey: null,
    bodyDigest: null,
    expectedOffset: null,
    source: "{}",
    traceparent: null,
    formatVersion: 1,
    control: undefined,
    isEphemeral: false,
    bytes: 100,
  };

  it("fails alone; the others of its group and of its context land", async () => {
    await direct.append(path, [{}]);
    await direct.append(`${path}/other`, [{}]);
    const others = [1, 2, 3].flatMap((n) => [
      direct.append(path, [{ payload: n }]),
      direct.append(`${path}/other`, [{ payload: n }]),
    ]);
    const spoiled = direct.writer.write({
      address: address(path),
      name: nameOf(address(path)),
      key: null,
      appendId: uuidv7(),
      writer: service,
      traceparent: null,
      guard: null,
      events: [poison],
    });
    const later = direct.append(path, [{ payload: "later" }]);
    await expect(spoiled).rejects.toMatchObject({ code: "INTERNAL" });
    expect((await Promise.all([...others, later])).flat().map(({ existing }) => existing)).toEqual(
      Array.from({ length: 7 }, () => false),
    );
    expect(await offsetsOf()).toEqual([1, 2, 3, 4, 5, 6]);
    expect((await readLog(direct.pool, path)).map(({ payload }) => payload).slice(2)).toEqual(["1", "2", "3", '"later"']);
    expect(direct.faults.length).toBeGreaterThan(0);
    direct.faults.length = 0;
  });
});

describe("a refusal", () => {
  const under = (epoch: number) => code({ lease: { partition: partitionOf(owner, path), epoch } });

  it("for an old epoch is not what a repeated append is told that landed before the newer one", async () => {
    const appendId = uuidv7();
    const [first] = await direct.append(path, [{}], { appendId, writer: under(1) });
    await direct.append(path, [{}], { writer: under(2) });
    expect(await direct.append(path, [{}], { appendId, writer: under(1) })).toEqual([first]);
    await expect(direct.append(path, [{}], { writer: under(1) })).rejects.toMatchObject({ code: "STALE_EPOCH" });
    expect(await offsetsOf()).toEqual([1, 2, 3]);
  });

  it("rests on nothing that was read before its append arrived", async () => {
    const confirming = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<void>();
    const engine = startEngine({ url: database.url, storeOf: (store) => slowToLookUp(store, confirming.resolve, opened.promise) });
    await engine.append(path, [{ type: itx.paused.type, payload: {} }]);
    const early = engine.append(path, [{ payload: "early" }]);
    await confirming.promise;
    // What the early one is refused for is known here, and over by now.
    await direct.append(path, [{ type: itx.resumed.type, payload: {} }]);
    const late = engine.append(path, [{ payload: "late" }]);
    opened.resolve();
    await expect(early).rejects.toMatchObject({ code: "STREAM_PAUSED" });
    expect(await late).toMatchObject([{ offset: 4 }]);
    await engine.close();
  });
});

it("an append that is repeated while it waits fails once, and leaves no failure that nobody hears of", async () => {
  const proxy = await FaultProxy.start(database.url);
  const engine = startEngine({ url: proxy.url(database.url) });
  proxy.refuse();
  const unheard: unknown[] = [];
  const hear = (error: unknown): void => void unheard.push(error);
  process.on("unhandledRejection", hear);
  const appendId = uuidv7();
  const writer = code({ origin: path });
  const both = [1, 2].map(() => engine.append(path, [{}], { appendId, writer }));
  for (const { status } of await Promise.allSettled(both)) expect(status).toBe("rejected");
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", hear);
  expect(unheard).toEqual([]);
  await proxy.heal();
  await engine.close();
  proxy.stop();
});

describe("a writer that always loses", () => {
  it("claims its context after three losses and lands, while the faster one waits for it", async () => {
    const owner = startEngine({ url: database.url });
    await owner.append(path, [{}]);
    await direct.append(path, [{}]);
    let passes = 0;
    const behind: Promise<unknown>[] = [];
    const disarm = direct.failpoints.on("append.before-commit", async () => {
      passes += 1;
      const rival = owner.append(path, [{ payload: passes }]);
      // Under the claim the rival waits for the end of this very commit.
      if (passes <= 3) await rival;
      else behind.push(rival);
    });
    const before = { ...direct.writer.counters };
    const receipts = await direct.append(path, [{ payload: "visitor" }]);
    disarm();
    await Promise.all(behind);
    expect(direct.writer.counters.claims - before.claims).toBe(1);
    expect(receipts).toMatchObject([{ offset: 7 }]);
    expect(await offsetsOf()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    const { rows } = await direct.pool.query(
      "select first_offset::int as first, last_offset::int as last from commit join context using (context_id) where path = $1 order by commit_no desc limit 2",
      [path],
    );
    expect(rows).toEqual([
      { first: 8, last: 8 },
      { first: 7, last: 7 },
    ]);
    await owner.close();
  });

  it("is not told of a claimed commit that did not become durable", async () => {
    const proxy = await FaultProxy.start(database.url);
    const engine = startEngine({ url: proxy.url(database.url) });
    await engine.append(path, [{}]);
    await direct.append(path, [{}]);
    let passes = 0;
    engine.failpoints.on("append.before-commit", async () => {
      passes += 1;
      if (passes <= 3) await direct.append(path, [{ payload: passes }]);
    });
    // Under the claim: the events are written, and the connection goes before the transaction's end arrives.
    engine.failpoints.on("append.after-commit", () => {
      if (passes === 4) proxy.reset();
    });
    const [receipt] = await engine.append(path, [{ payload: "visitor" }]);
    expect(engine.writer.counters).toMatchObject({ claims: 1, failures: 1, foundByAppendId: 0 });
    expect((await readLog(direct.pool, path)).find(({ payload }) => payload === '"visitor"')!.offset).toBe(receipt!.offset);
    expect(await offsetsOf()).toEqual([1, 2, 3, 4, 5, 6, 7]);
    await engine.close();
    proxy.stop();
  });
});

it("a claim that came too late leaves its transaction behind: the feed answers commits in their order", async () => {
  let isLate = true;
  const storeOf = (store: LogStore): LogStore =>
    withLanes(store, (lane) => {
      const claim = lane.claimNextCommit.bind(lane);
      lane.claimNextCommit = async (contextId) => {
        if (!isLate) return claim(contextId);
        isLate = false;
        // As one that waited for a rival's: the transaction has its id, and the rival lands after it.
        await lane.addTypes([`example.com${path}`]);
        await direct.append(path, [{ payload: "rival" }]);
        return null;
      };
    });
  const engine = startEngine({ url: database.url, storeOf });
  await engine.append(path, [{}]);
  let passes = 0;
  engine.failpoints.on("append.before-commit", async () => {
    if ((passes += 1) <= 3) await direct.append(path, [{ payload: passes }]);
  });
  await engine.append(path, [{ payload: "visitor" }]);
  expect(engine.writer.counters).toMatchObject({ claims: 1 });
  const { contextId } = engine.cache.peek(address(path))!;
  const { rows } = await direct.pool.query<{ no: number }>(
    "select commit_no::int as no from commit where context_id = $1 order by xid",
    [contextId],
  );
  expect(rows.map(({ no }) => no)).toEqual([1, 2, 3, 4, 5, 6]);
  await engine.close();
});

describe("a log restored from a backup", () => {
  it("continues 2^20 above what it has, says so, and is not fooled by what a process remembers", async () => {
    for (let n = 0; n < 4; n += 1) await direct.append(path, [{ payload: n }]);
    const { contextId } = direct.cache.peek(address(path))!;
    // What a restore does: the end of the log is gone, and the runbook raises the generation.
    await direct.pool.query('delete from event where context_id = $1 and "offset" > 3', [contextId]);
    await direct.pool.query("delete from commit where context_id = $1 and commit_no > 2", [contextId]);
    await direct.pool.query("update shard set generation = generation + 1");
    expect(await direct.append(path, [{ payload: "after" }])).toMatchObject([{ offset: 3 + restoreGap + 2 }]);
    expect(await direct.append(path, [{ payload: "next" }])).toMatchObject([{ offset: 3 + restoreGap + 3 }]);
    const log = await readLog(direct.pool, path);
    expect(log.map(({ offset }) => offset)).toEqual([1, 2, 3, 3 + restoreGap + 1, 3 + restoreGap + 2, 3 + restoreGap + 3]);
    expect(log[3]).toMatchObject({
      type: itx.logRestored.type,
      payload: JSON.stringify({ lostAfter: 3 }),
      source: { platform: true },
    });
    const { rows } = await direct.pool.query(
      "select commit_no::int as no, generation from commit where context_id = $1 order by 1",
      [contextId],
    );
    expect(rows).toEqual([
      { no: 1, generation: 1 },
      { no: 2, generation: 1 },
      { no: 3, generation: 2 },
      { no: 4, generation: 2 },
    ]);
  });
});

it("observers hear of a commit once, in order, before it is answered", async () => {
  const heard: string[] = [];
  const engine = startEngine({
    url: database.url,
    onCommit: ({ commits }) => commits.forEach(({ commitNo, head }) => heard.push(`${head.address.path} ${commitNo}`)),
  });
  const answered = engine.append(path, [event({})]).then(() => heard.length);
  expect(await answered).toBe(1);
  await Promise.all(Array.from({ length: 200 }, (_, index) => engine.append(path, [{ payload: index }])));
  expect(heard).toEqual(heard.map((_, index) => `${path} ${index + 1}`));
  await engine.close();
  expect(address(path)).toEqual({ owner, path });
});

/** A store whose lanes find appends by id only once `opened` resolves. */
function slowToLookUp(store: LogStore, asked: () => void, opened: Promise<void>): LogStore {
  return withLanes(store, (lane) => {
    const find = lane.committedAppends.bind(lane);
    lane.committedAppends = async (appends) => {
      asked();
      await opened;
      return find(appends);
    };
  });
}

function withLanes(store: LogStore, change: (lane: LogLane) => void): LogStore {
  const openLane = (): LogLane => {
    const lane = store.openLane();
    change(lane);
    return lane;
  };
  return Object.assign(Object.create(store) as LogStore, { openLane });
}
