import { uuidv7 } from "@iterate-platform/service/ids";
import { useTestDatabase } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { coreVersion } from "../core/fold.js";
import { address, migrateLog, startEngine } from "../log/engine.fixture.js";
import { PostgresLogStore } from "../log/postgres/postgres-log-store.js";
import { streamEvents } from "../log/stream.js";
import type { LiveCommits } from "../publish/contract.js";
import { RetentionPod } from "./retention.fixture.js";

const database = useTestDatabase();
let pod: RetentionPod;
let other: RetentionPod;
beforeAll(async () => {
  await migrateLog(database.url);
  pod = new RetentionPod(database.url);
  other = new RetentionPod(database.url);
});
afterAll(() => Promise.all([pod.close(), other.close()]));

const truncatedAt = (firstOffset: number) => ({ code: "OFFSET_TRUNCATED", data: { firstOffset }, retryable: false });
const whole = (rows: Awaited<ReturnType<RetentionPod["rows"]>>) =>
  rows.filter(({ rest }) => rest === "whole").map(({ offset }) => offset);
let paths = 0;
const newPath = () => `/retention/${++paths}`;

/** A context with events 1 (created) to `last` that wishes to keep those from `offset` on. */
async function shortened(last: number, offset: number): Promise<string> {
  const path = newPath();
  await pod.fill(path, last - 2);
  await pod.keepFrom(path, { offset });
  return path;
}

describe("a truncation", () => {
  test("is a fact of the log, and what is below it is refused in every way of reading, through every process", async () => {
    const path = await shortened(10, 6);
    expect((await other.read(path, 2)).events[0]!.offset).toBe(3n);
    await pod.sweep();
    expect(pod.failures).toEqual([]);
    for (const reader of [pod, other]) {
      for (const types of [[], ["example.com/happened"], [itx.logTruncated.type]]) {
        await expect(reader.read(path, 1, types)).rejects.toMatchObject(truncatedAt(6));
        await expect(reader.read(path, 4, types)).rejects.toMatchObject(truncatedAt(6));
        expect(await reader.read(path, 5, types)).toMatchObject({ scannedAfter: 5, isAtHead: true });
        expect(await reader.read(path, 6, types)).toMatchObject({ scannedAfter: 6, isAtHead: true });
        expect(await reader.read(path, 0, types)).toMatchObject({ scannedAfter: 5, isAtHead: true });
      }
      const { events } = await reader.read(path, 0);
      expect(events.map(({ offset }) => Number(offset))).toEqual([6, 7, 8, 9, 10, 11]);
      expect(events.at(-1)).toMatchObject({ type: itx.logTruncated.type, source: { platform: true, origin: path } });
      expect(JSON.parse(events.at(-1)!.payload!.toString())).toEqual({ firstOffset: 6, decidedAtOffset: 10, undelivered: [] });
    }
  });

  test("removes bodies, keeps what tells a repeated key or append from a new one, and every control event", async () => {
    const path = newPath();
    const appendId = uuidv7();
    const [, keyed] = await pod.engine.append(path, [{ payload: { a: 1 } }, { payload: { b: 1 }, idempotencyKey: "K" }, {}], {
      appendId,
    });
    await pod.subscribe(path, "a", 0);
    await pod.fill(path, 2);
    await pod.keepFrom(path, { offset: 7 });
    await pod.report(path, "a", 5, 100);
    await pod.sweep();
    expect(await pod.rows(path)).toEqual([
      { offset: 1, rest: "whole", type: itx.created.type },
      { offset: 2, rest: "key", type: "example.com/happened" },
      { offset: 3, rest: "key", type: "example.com/happened" },
      { offset: 5, rest: "whole", type: itx.subscriptionConfigured.type },
      { offset: 6, rest: "key", type: "example.com/happened" },
      { offset: 7, rest: "whole", type: "example.com/happened" },
      { offset: 8, rest: "whole", type: itx.retentionConfigured.type },
      { offset: 9, rest: "whole", type: itx.logTruncated.type },
    ]);
    for (const { engine } of [pod, other]) {
      const again = await engine.append(path, [{ payload: { b: 1 }, idempotencyKey: "K" }]);
      expect(again).toEqual([{ offset: 3, createdAtUs: keyed!.createdAtUs, existing: true }]);
      await expect(engine.append(path, [{ payload: { b: 2 }, idempotencyKey: "K" }])).rejects.toMatchObject({
        code: "IDEMPOTENCY_CONFLICT",
        data: { existingOffset: 3 },
      });
      const repeated = await engine.append(path, [{ payload: { a: 1 } }, { payload: { b: 1 }, idempotencyKey: "K" }, {}], {
        appendId,
      });
      expect(repeated.map(({ offset }) => offset)).toEqual([2, 3, 4]);
    }
  });

  test("goes on from where the last one ended, and leaves of its facts the newest", async () => {
    const path = await shortened(8, 4);
    await pod.sweep();
    await pod.keepFrom(path, { offset: 10 });
    await pod.sweep();
    const facts = (await pod.rows(path)).filter(({ type }) => type === itx.logTruncated.type);
    expect(facts.filter(({ rest }) => rest === "whole").map(({ offset }) => offset)).toEqual([11]);
    expect((await pod.head(path)).core.retention).toEqual({ keepFrom: { offset: 10 }, configuredAtOffset: 10, firstOffset: 10 });
    expect(whole(await pod.rows(path))).toEqual([1, 8, 10, 11]);
  });

  test("leaves the core state of a context as it was, for a process that knows nothing and for another version of the reducers", async () => {
    const path = await shortened(10, 9);
    await pod.subscribe(path, "a", 0);
    await pod.append(path, itx.paused.type, { reason: "test" });
    await pod.report(path, "a", 11, 100);
    await pod.sweep();
    const { core, contextId } = await pod.head(path);
    expect(core).toMatchObject({
      retention: { firstOffset: 9 },
      pause: { reason: "test" },
      subscriptions: { a: { afterOffset: 0 } },
    });
    const cold = startEngine({ url: database.url });
    expect((await cold.cache.load([address(path)]))[0]!.core).toEqual(core);
    await pod.pool.query("delete from core_state where context_id = $1 and reducer_version = $2", [contextId, coreVersion]);
    cold.cache.clear();
    expect((await cold.cache.load([address(path)]))[0]!.core).toEqual(core);
    await cold.close();
  });

  test("leaves of the firings of a schedule the newest, and the schedule as it was", async () => {
    const path = newPath();
    const at = (n: number): string => new Date(Date.UTC(2030, 0, 1) + n * 60_000).toISOString();
    const set = async (key: string): Promise<number> =>
      pod.append(path, itx.scheduleSet.type, { key, when: { everyMs: 60_000 }, events: [{ type: "a/b" }] });
    const fire = (key: string, scheduledAtOffset: number, n: number) =>
      pod.append(path, itx.scheduleFired.type, { key, scheduledAtOffset, at: at(n), nextAt: at(n + 1) });
    const [one, other] = [await set("one"), await set("other")];
    for (let n = 0; n < 4; n += 1) await fire("one", one, n);
    const last = await fire("other", other, 0);
    // The same interval, set again, goes on from what the one before has fired.
    await set("one");
    await pod.keepFrom(path, { offset: 100 });
    await pod.sweep();
    const { core, contextId } = await pod.head(path);
    expect(core.schedules).toMatchObject({ one: { nextAtMs: Date.parse(at(4)) }, other: { nextAtMs: Date.parse(at(1)) } });
    const fired = (await pod.rows(path)).filter(({ type, rest }) => type === itx.scheduleFired.type && rest === "whole");
    expect(fired.map(({ offset }) => offset)).toEqual([last - 1, last]);
    await pod.pool.query("delete from core_state where context_id = $1", [contextId]);
    const cold = startEngine({ url: database.url });
    expect((await cold.cache.load([address(path)]))[0]!.core).toEqual(core);
    await cold.close();
  });

  test("may give up everything before its own fact", async () => {
    const path = await shortened(10, 1_000_000);
    await pod.sweep();
    const { events } = await pod.read(path, 0);
    expect(events.map(({ offset, type }) => [Number(offset), type])).toEqual([[11, itx.logTruncated.type]]);
    expect((await pod.engine.append(path, [{}]))[0]!.offset).toBe(12);
  });

  test("removes rows in steps, however many there are", async () => {
    const path = newPath();
    for (let n = 0; n < 3; n += 1)
      await pod.engine.append(
        path,
        Array.from({ length: 900 }, () => ({})),
      );
    await pod.keepFrom(path, { offset: 2_600 });
    await pod.sweep();
    expect(whole(await pod.rows(path))).toEqual([1, ...Array.from({ length: 104 }, (_, at) => 2_600 + at)]);
  });
});

describe("who reads while the log is truncated", () => {
  test("a stream that is behind ends with the first offset; one that is not goes on", async () => {
    const path = newPath();
    for (let n = 0; n < 4; n += 1)
      await pod.engine.append(
        path,
        Array.from({ length: 900 }, () => ({})),
      );
    const leaving = new AbortController();
    const parts = { reader: other.reader, heads: other.heads, live: silent(3_602), nowMs: () => performance.now() };
    const follow = (after: number) => streamEvents(parts, { address: address(path), after, types: [] }, leaving.signal);
    const behind = follow(0);
    const ahead = follow(3_400);
    expect((await behind.next()).value).toMatchObject({ isAtHead: false });
    await ahead.next();
    await pod.keepFrom(path, { offset: 3_000 });
    await pod.sweep();
    const read = async () => {
      // A page that was fetched ahead is whole and is answered.
      for (let pages = 0; pages < 3; pages += 1) await behind.next();
    };
    await expect(read()).rejects.toMatchObject(truncatedAt(3_000));
    leaving.abort(new Error("enough"));
    await ahead.return(undefined as never);
  });

  test("a large body that goes between the look and its turn is refused, not answered without", async () => {
    const path = newPath();
    await pod.engine.append(path, [{ payload: "x".repeat(20_000), idempotencyKey: "large" }]);
    await pod.fill(path, 3);
    await pod.keepFrom(path, { offset: 4 });
    const { contextId } = await pod.head(path);
    const log = new PostgresLogStore(pod.pool);
    expect(await log.eventsAfter(contextId, 1, 10)).toMatchObject([
      { offset: 2, payload: null, bodyBytes: 20_002 },
      {},
      {},
      {},
      {},
    ]);
    await pod.sweep();
    await expect(log.bodiesOf(contextId, [2])).rejects.toMatchObject(truncatedAt(4));
  });
});

/** Hears of nothing. */
function silent(lastOffset: number): LiveCommits {
  return {
    listen: () => ({
      head: { commitNo: 1, lastOffset, reservedThrough: lastOffset },
      take: () => undefined,
      ephemeralsWithin: () => [],
      whenAbove: (_, signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error))),
      doubt: () => Promise.resolve(),
      close: () => undefined,
    }),
  };
}

describe("a wish to keep by age", () => {
  test("gives up what is older and nothing younger", async () => {
    const path = newPath();
    await pod.fill(path, 40);
    await pod.age(path, 17, 3_600_000);
    await pod.keepFrom(path, { maxAgeMs: 1_800_000 });
    await pod.sweep();
    expect((await pod.head(path)).core.retention?.firstOffset).toBe(18);
    expect(Number((await pod.read(path, 0)).events[0]!.offset)).toBe(18);
  });

  test.for([0, 1, 2, 39, 40, 41, 42])("finds the place by halves when %i of 42 are old", async (old) => {
    const path = newPath();
    await pod.fill(path, 41);
    // Offsets that nobody has are stepped over.
    const { contextId } = await pod.head(path);
    await pod.pool.query(`delete from event where context_id = $1 and "offset" in (5, 6, 7, 20, 21)`, [contextId]);
    await pod.age(path, old, 3_600_000);
    const found = await pod.store.firstYoungerThan(contextId, 1, 42, 1_800_000);
    const { rows } = await pod.pool.query<{ offset: string }>(
      `select "offset" from event where context_id = $1 and created_at >= now() - interval '30 minutes' order by 1 limit 1`,
      [contextId],
    );
    const oldest = Number(rows[0]?.offset ?? 43);
    expect(found).toBeLessThanOrEqual(oldest);
    expect(found).toBeGreaterThan(old);
  });

  test("null keeps what is there", async () => {
    const path = await shortened(10, 5);
    await pod.keepFrom(path, null);
    await pod.sweep();
    expect((await pod.read(path, 0)).events).toHaveLength(11);
  });
});

describe("a subscription", () => {
  test("holds the log at what it has not passed, and everything until it has said so", async () => {
    const path = newPath();
    await pod.fill(path, 9);
    const configuredAt = await pod.subscribe(path, "a", 0);
    await pod.keepFrom(path, { offset: 9 });
    await pod.sweep();
    expect((await pod.head(path)).core.retention?.firstOffset).toBe(1);
    for (const [floor, first] of [
      [0, 1],
      [5, 6],
      [7, 8],
      [8, 9],
      [9, 9],
    ] as const) {
      await pod.report(path, "a", configuredAt, floor);
      await pod.sweep();
      expect((await pod.head(path)).core.retention?.firstOffset).toBe(first);
    }
  });

  test("a late report of a lower place changes nothing; one of an older row is not taken for this one", async () => {
    const path = newPath();
    await pod.fill(path, 9);
    const first = await pod.subscribe(path, "a", 0);
    const second = await pod.subscribe(path, "a", 2);
    const { contextId } = await pod.head(path);
    await pod.report(path, "a", second, 5);
    await pod.report(path, "a", second, 3);
    await pod.report(path, "a", first, 9);
    expect(await pod.store.floorsOf(contextId)).toEqual([{ name: "a", configuredAt: second, resumedAt: 0, floor: 5 }]);
    await pod.report(path, "a", second, 1, 14);
    expect(await pod.store.floorsOf(contextId)).toEqual([{ name: "a", configuredAt: second, resumedAt: 14, floor: 1 }]);
  });

  test("that is in a report twice is taken at its furthest", async () => {
    const path = newPath();
    await pod.fill(path, 3);
    const { contextId } = await pod.head(path);
    const floor = (configuredAt: number, floor: number) => ({ ...address(path), name: "twice", configuredAt, resumedAt: 0, floor });
    await pod.store.reportFloors([floor(3, 2), floor(3, 4), floor(2, 9), floor(3, 3)]);
    expect(await pod.store.floorsOf(contextId)).toEqual([{ name: "twice", configuredAt: 3, resumedAt: 0, floor: 4 }]);
  });

  test("configured after the decision is not overtaken by it", async () => {
    const path = await shortened(10, 8);
    const { cache } = pod.engine;
    const before = await pod.head(path);
    // Another process decides from what it knew, and only then hears of the subscription.
    await other.subscribe(path, "late", 3);
    expect(before.lastOffset).toBe(10);
    const payload = { firstOffset: 8, decidedAtOffset: before.lastOffset, undelivered: [] };
    await expect(pod.append(path, itx.logTruncated.type, payload)).rejects.toMatchObject({ code: "OFFSET_CONFLICT" });
    expect(cache.peek(address(path))!.core.retention?.firstOffset).toBe(1);
    await pod.sweep();
    expect((await pod.read(path, 3)).events[0]!.offset).toBe(4n);
  });

  test("halted for less than 30 days holds the log; after that the fact names it, and it goes on from a place alone", async () => {
    const path = newPath();
    await pod.fill(path, 9);
    const configuredAt = await pod.subscribe(path, "a", 0);
    const error = { code: "CODE_FAILED", message: "test" };
    const haltedAt = await pod.append(path, itx.subscriptionDeliveryHalted.type, { name: "a", afterOffset: 4, attempts: 1, error });
    await pod.keepFrom(path, { offset: 9 });
    await pod.report(path, "a", configuredAt, 4);
    const day = 86_400_000;
    await pod.age(path, haltedAt, 30 * day - 60_000);
    await pod.sweep();
    expect((await pod.head(path)).core.retention?.firstOffset).toBe(5);
    await pod.age(path, haltedAt, 61_000);
    await pod.sweep();
    expect((await pod.head(path)).core).toMatchObject({ retention: { firstOffset: 9 }, subscriptions: { a: { missedBelow: 9 } } });
    const resume = (afterOffset?: number) => pod.append(path, itx.subscriptionDeliveryResumed.type, { name: "a", afterOffset });
    await expect(resume()).rejects.toMatchObject(truncatedAt(9));
    await expect(resume(7)).rejects.toMatchObject(truncatedAt(9));
    await resume(8);
  });
});

describe("a crash", () => {
  test.for(["retention.truncated", "retention.emptying"])("at %s leaves the rest to whoever looks next", async (name) => {
    await pod.store.noticeChanges(1_000);
    await pod.pool.query("update retention set due_at = 'infinity'");
    const path = await shortened(10, 6);
    pod.engine.failpoints.set(`${name}=error*1`);
    await pod.sweeper.round();
    expect(pod.failures.splice(0)).toHaveLength(1);
    expect((await pod.head(path)).core.retention?.firstOffset).toBe(6);
    expect(whole(await pod.rows(path))).toHaveLength(11);
    await pod.pool.query("update retention set due_at = now() where due_at < 'infinity'");
    await other.sweep();
    expect(whole(await pod.rows(path))).toEqual([1, 6, 7, 8, 9, 10, 11]);
    await expect(pod.read(path, 4)).rejects.toMatchObject(truncatedAt(6));
  });

  test("two processes at once commit one truncation", async () => {
    const path = await shortened(200, 150);
    await Promise.all([pod.sweep(), other.sweep(), pod.sweep(), other.sweep()]);
    await pod.sweep();
    const facts = (await pod.rows(path)).filter(({ type }) => type === itx.logTruncated.type);
    expect(facts).toHaveLength(1);
    expect(whole(await pod.rows(path))[1]).toBe(150);
    expect([...pod.failures, ...other.failures]).toEqual([]);
  });
});

test("keys and commits go 30 days after their events, and not before; the last commit never", async () => {
  const path = newPath();
  await pod.engine.append(path, [{ payload: 1, idempotencyKey: "K" }]);
  await pod.fill(path, 10);
  await pod.keepFrom(path, { offset: 10 });
  await pod.sweep();
  const { contextId, lastOffset } = await pod.head(path);
  const commits = async () => {
    const { rows } = await pod.pool.query<{ n: number }>(`select count(*)::int as n from commit where context_id = $1`, [
      contextId,
    ]);
    return rows[0]!.n;
  };
  const day = 86_400_000;
  await pod.age(path, lastOffset, 30 * day - 60_000);
  await pod.sweep();
  expect((await pod.rows(path)).filter(({ rest }) => rest === "key")).toHaveLength(8);
  expect(await commits()).toBe(13);
  await pod.age(path, lastOffset, 61_000);
  await pod.sweep();
  expect((await pod.rows(path)).map(({ offset }) => offset)).toEqual([1, 10, 11, 12, 13, 14]);
  expect(await commits()).toBe(5);
  const cold = startEngine({ url: database.url });
  expect((await cold.append(path, [{ payload: 1, idempotencyKey: "K" }]))[0]).toMatchObject({
    offset: lastOffset + 1,
    existing: false,
  });
  await cold.close();
});

describe("a round", () => {
  const quiet = useTestDatabase();
  let hourly: RetentionPod;
  beforeAll(async () => {
    await migrateLog(quiet.url);
    hourly = new RetentionPod(quiet.url, { sweepMs: 3_600_000 });
  });
  afterAll(() => hourly.close());
  const firstOffset = async (path: string) => (await hourly.head(path)).core.retention?.firstOffset;

  test("looks at a context when its setting is new, and not because of what it gave up itself", async () => {
    const path = newPath();
    await hourly.fill(path, 20);
    await hourly.age(path, 5, 3_600_000);
    await hourly.keepFrom(path, { maxAgeMs: 1_800_000 });
    await hourly.sweep();
    expect(await firstOffset(path)).toBe(6);
    await hourly.age(path, 10, 3_600_000);
    await hourly.sweep();
    expect(await firstOffset(path), "it is not due for an hour").toBe(6);
    await hourly.keepFrom(path, { maxAgeMs: 1_900_000 });
    await hourly.sweep();
    expect(await firstOffset(path)).toBe(11);
  });

  test("that could not remove all of a long past says that there is more", { timeout: 60_000 }, async () => {
    const path = newPath();
    await hourly.fill(path, 1);
    const { contextId } = await hourly.head(path);
    await hourly.pool.query(
      `insert into event (context_id, "offset", type, format_version, is_control, source)
       select context_id, n, type, format_version, false, source from event, generate_series(3, 101500) n where context_id = $1 and "offset" = 2`,
      [contextId],
    );
    await hourly.pool.query("update commit set last_offset = 101500, reserved_through = 101500 where context_id = $1", [contextId]);
    hourly.engine.cache.clear();
    await hourly.keepFrom(path, { offset: 101_400 });
    expect(await hourly.sweeper.round()).toBe(true);
    await hourly.sweep();
    expect(await hourly.rows(path)).toHaveLength(2 + 101 + 2);
  });

  test("puts off what was claimed and is gone", async () => {
    const path = newPath();
    await hourly.fill(path, 1);
    await hourly.keepFrom(path, { offset: 2 });
    const { contextId } = await hourly.head(path);
    await hourly.store.noticeChanges(10);
    await hourly.pool.query("delete from context where context_id = $1", [contextId]);
    hourly.engine.cache.clear();
    await hourly.sweep();
    const { rows } = await hourly.pool.query("select 1 from retention where context_id = $1 and due_at < now()", [contextId]);
    expect(rows).toEqual([]);
  });
});
