import { useTestDatabase } from "@iterate-platform/testing";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { maxCauseDepth } from "../caller/loop-guard.js";
import {
  address,
  code,
  migrateLog,
  person,
  readLog,
  service,
  startEngine,
  type EventFields,
  type TestEngine,
} from "./engine.fixture.js";
import { blockIdleMs, blockOffsets, OffsetBlocks } from "./offset-blocks.js";
import { statementCounts } from "./postgres/sql-session.js";

const database = useTestDatabase();
beforeAll(() => migrateLog(database.url));

let one: TestEngine;
let two: TestEngine;
beforeEach(() => {
  one = startEngine({ url: database.url });
  two = startEngine({ url: database.url });
});
afterEach(async () => {
  expect([...one.faults, ...two.faults]).toEqual([]);
  await Promise.all([one.close(), two.close()]);
});

let contexts = 0;
const newPath = (): string => `/ephemeral/${++contexts}`;
const frame = (n?: number, fields: EventFields = {}): EventFields => ({
  type: "example.com/progress-frame",
  payload: n ?? {},
  ephemeral: true,
  ...fields,
});
const durable = (n?: number): EventFields => ({ payload: n ?? {} });
const offsetsOf = (receipts: readonly { offset: number }[]): number[] => receipts.map(({ offset }) => offset);
const append = async (engine: TestEngine, path: string, ...events: EventFields[]): Promise<number[]> =>
  offsetsOf(await engine.append(path, events));
/** Offsets of what observers of ephemeral events heard of a context, in order. */
const heard = (engine: TestEngine, path: string): number[] =>
  engine.ephemerals.filter(({ head }) => head.address.path === path).flatMap(({ events }) => offsetsOf(events));
const stored = async (path: string): Promise<number[]> => offsetsOf(await readLog(one.pool, path));
const upTo = (last: number, first = 1): number[] => Array.from({ length: last - first + 1 }, (_, at) => first + at);
const many = (count: number): EventFields[] => Array.from({ length: count }, (_, n) => frame(n));

async function commits(path: string): Promise<{ first: number; last: number; reserved: number }[]> {
  const { rows } = await one.pool.query<{ first: string; last: string; reserved: string }>(
    `select first_offset as first, last_offset as last, reserved_through as reserved from commit join context using (context_id)
     where path = $1 order by commit_no`,
    [path],
  );
  return rows.map(({ first, last, reserved }) => ({ first: Number(first), last: Number(last), reserved: Number(reserved) }));
}

/** Statements that this process sends while `work` runs. */
async function statements(work: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = new Map(statementCounts);
  await work();
  return Object.fromEntries(
    [...statementCounts].map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const).filter(([, count]) => count > 0),
  );
}

describe("an append of ephemeral events", () => {
  test("[iterate-10] takes offsets by one reservation without events, stores nothing, and then asks the database nothing", async () => {
    const path = newPath();
    expect(await append(one, path, durable())).toEqual([2]);
    expect(await append(one, path, frame(), frame())).toEqual([3, 4]);
    expect(await commits(path)).toEqual([
      { first: 1, last: 2, reserved: 2 },
      { first: 3, last: 2, reserved: 2 + blockOffsets },
    ]);
    expect(await statements(async () => expect(await append(one, path, frame(), frame())).toEqual([5, 6]))).toEqual({});
    expect(await stored(path)).toEqual([1, 2]);
    expect(heard(one, path)).toEqual([3, 4, 5, 6]);
    expect(one.committed.at(-1)!.commits[0]).toMatchObject({ commitNo: 2, firstOffset: 3, lastOffset: 2, rows: [] });
  });

  test("gives birth to a context by the record of its birth alone", async () => {
    const path = newPath();
    expect(await append(one, path, frame())).toEqual([2]);
    expect(await commits(path)).toEqual([{ first: 1, last: 1, reserved: 1 + blockOffsets }]);
    expect(await stored(path)).toEqual([1]);
  });

  test.each([
    [blockOffsets - 1, 1],
    [blockOffsets, 1],
    [blockOffsets + 1, 2],
    [2 * blockOffsets + 1, 3],
  ])("of %i one by one costs %i reservations", async (count, reservations) => {
    const path = newPath();
    await append(one, path, durable());
    for (let done = 0; done < count; done += 1) expect(await append(one, path, frame())).toEqual([3 + done]);
    expect(await commits(path)).toHaveLength(1 + reservations);
    expect(await append(two, path, durable())).toEqual([2 + reservations * blockOffsets + 1]);
  });

  test("that together need more than a block reserve as many as they need at once", async () => {
    const path = newPath();
    await append(one, path, durable());
    const all = await Promise.all(upTo(3).map(() => append(one, path, ...many(900))));
    expect(all.flat()).toEqual(upTo(2_702, 3));
    expect((await commits(path)).length).toBeLessThanOrEqual(4);
    expect((await commits(path)).at(-1)!.reserved).toBe(2 + 3 * blockOffsets);
  });

  test("mixed with stored ones lands whole, at contiguous offsets, in one commit", async () => {
    const path = newPath();
    await append(one, path, durable());
    expect(await append(one, path, durable(), frame(), durable(), frame())).toEqual([3, 4, 5, 6]);
    expect(await stored(path)).toEqual([1, 2, 3, 5]);
    expect((await commits(path)).at(-1)).toEqual({ first: 3, last: 5, reserved: 5 + blockOffsets });
    expect(one.ephemerals.at(-1)).toMatchObject({
      head: { commitNo: 2 },
      events: [
        { offset: 4, after: 3 },
        { offset: 6, after: 5 },
      ],
    });
    expect(await append(one, path, frame(), durable())).toEqual([7, 8]);
    expect(await commits(path)).toHaveLength(3);
  });

  test("before a stored one reserves nothing: the stored one proves its offset", async () => {
    const path = newPath();
    await append(one, path, durable());
    expect(await append(one, path, frame(), durable())).toEqual([3, 4]);
    expect((await commits(path)).at(-1)).toEqual({ first: 4, last: 4, reserved: 4 });
    expect(one.ephemerals.at(-1)).toMatchObject({ head: { commitNo: 2 }, events: [{ offset: 3, after: 2 }] });
  });

  test("answers the source as it was stamped, and the time", async () => {
    const path = newPath();
    const before = Date.now() * 1_000;
    await append(one, path, frame());
    const [receipt] = await one.append(path, [frame()], { writer: person });
    expect(JSON.parse(receipt!.source!)).toEqual({ origin: "/", cause: person.cause, principal: "usr_test" });
    expect(receipt!.createdAtUs).toBeGreaterThanOrEqual(before);
    expect(receipt!.createdAtUs).toBeLessThanOrEqual(Date.now() * 1_000);
  });
});

describe("offsets of ephemeral events", () => {
  test("[iterate-11] are never given to a stored event: after a crash the next one lands above the reserved block", async () => {
    const path = newPath();
    await append(one, path, durable());
    expect(await append(one, path, frame())).toEqual([3]);
    await one.close();
    expect(await append(two, path, durable())).toEqual([2 + blockOffsets + 1]);
    one = startEngine({ url: database.url });
    expect(await append(one, path, frame())).toEqual([2 + blockOffsets + 2]);
  });

  test("are continued by stored events of the same writer, which keeps its block", async () => {
    const path = newPath();
    await append(one, path, frame());
    expect(await append(one, path, durable(), durable())).toEqual([3, 4]);
    expect(await statements(async () => expect(await append(one, path, frame())).toEqual([5]))).toEqual({});
    expect(await commits(path)).toEqual([
      { first: 1, last: 1, reserved: 1 + blockOffsets },
      { first: 3, last: 4, reserved: 1 + blockOffsets },
    ]);
  });

  test("are given up by a writer that learns of another's commit", async () => {
    const path = newPath();
    await append(one, path, frame());
    expect(await append(two, path, durable())).toEqual([blockOffsets + 2]);
    // Not known yet: the offset is its own, and stamped with the commit it follows.
    expect(await append(one, path, frame())).toEqual([3]);
    expect(one.ephemerals.at(-1)!.head.commitNo).toBe(1);
    expect(await append(one, path, durable())).toEqual([blockOffsets + 3]);
    expect(await append(one, path, frame())).toEqual([blockOffsets + 4]);
    expect(one.ephemerals.at(-1)).toMatchObject({ head: { commitNo: 4 }, events: [{ after: blockOffsets + 3 }] });
  });

  test("are given up when memory was moved forward by a read", async () => {
    const path = newPath();
    await append(one, path, frame());
    await append(two, path, durable());
    const { contextId } = one.cache.peek(address(path))!;
    await one.cache.refresh([contextId]);
    expect(one.writer.blocks.isHeld(one.cache.peekById(contextId)!)).toBe(false);
    expect(await append(one, path, frame())).toEqual([blockOffsets + 3]);
  });

  test("are given up after a statement of unknown outcome, which may still land inside the block", async () => {
    const path = newPath();
    await append(one, path, frame());
    const disarm = one.failpoints.on("append.after-commit", () => {
      disarm();
      throw Object.assign(new Error("cut"), { code: "ECONNRESET" });
    });
    const landed = await append(one, path, durable(), frame());
    expect(landed).toEqual([3, 4]);
    one.faults.length = 0;
    expect(await append(one, path, frame())).toEqual([blockOffsets + 2]);
    expect(new Set(heard(one, path)).size).toBe(heard(one, path).length);
  });

  test("are given up when a statement failed that may still be on its way", async () => {
    const path = newPath();
    await append(one, path, frame());
    const disarm = one.failpoints.on("append.before-commit", () => {
      disarm();
      throw Object.assign(new Error("cut"), { code: "ECONNRESET" });
    });
    const [lost, next] = await Promise.all([append(one, path, durable()), append(one, path, frame())]);
    one.faults.length = 0;
    expect([...lost, ...next]).toEqual([blockOffsets + 2, blockOffsets + 3]);
  });

  test("are given up after a minute without use", async () => {
    const path = newPath();
    await append(one, path, frame());
    const head = one.cache.peek(address(path))!;
    let nowMs = 0;
    const blocks = new OffsetBlocks(() => nowMs);
    blocks.keep(head, 3);
    nowMs = blockIdleMs;
    expect(blocks.nextOf(head, head.generation)).toBe(3);
    nowMs = blockIdleMs + 1;
    expect(blocks.nextOf(head, head.generation)).toBeNull();
    expect(blocks.size).toBe(0);
  });

  test("are given up with the generation of the shard", async () => {
    const path = newPath();
    await append(one, path, frame());
    const head = one.cache.peek(address(path))!;
    expect(one.writer.blocks.nextOf(head, head.generation)).toBe(3);
    expect(one.writer.blocks.nextOf(head, head.generation + 1)).toBeNull();
    expect(await append(one, path, frame())).toEqual([blockOffsets + 2]);
  });

  test("are unique and in commit order under load from two processes", async () => {
    const path = newPath();
    await append(one, path, durable());
    const answers: number[] = [];
    const writing = [one, two].flatMap((engine) =>
      upTo(4).map(async (lane) => {
        for (let n = 0; n < 60; n += 1) {
          const events = (n + lane) % 5 === 0 ? [durable(), frame(), durable()] : [frame(), frame()];
          const offsets = await append(engine, path, ...events);
          expect(offsets).toEqual(upTo(offsets[0]! + offsets.length - 1, offsets[0]));
          answers.push(...offsets);
        }
      }),
    );
    await Promise.all(writing);
    expect(new Set(answers).size).toBe(answers.length);
    const log = await stored(path);
    const durables = new Set(log);
    for (const engine of [one, two]) {
      const offsets = heard(engine, path);
      expect(offsets).toEqual(offsets.toSorted((a, b) => a - b));
      for (const { events } of engine.ephemerals)
        for (const { offset, after } of events) {
          expect(durables.has(offset)).toBe(false);
          // What an event says it follows is its neighbour for ever.
          expect(log.findLast((at) => at < offset)).toBe(after);
        }
    }
    const wanted = new Set([...heard(one, path), ...heard(two, path)]);
    expect(answers.filter((offset) => !durables.has(offset)).every((offset) => wanted.has(offset))).toBe(true);
  });
});

describe("the checks of an append", () => {
  test("[iterate-24] refuse a batch whole: nobody hears of its ephemeral events, and their offsets are used next", async () => {
    const path = newPath();
    await append(one, path, frame());
    await expect(append(one, path, frame(), { ...durable(), offset: 99 })).rejects.toMatchObject({ code: "OFFSET_CONFLICT" });
    await expect(append(one, path, frame(), { ...durable(), type: "" })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    expect(heard(one, path)).toEqual([2]);
    expect(await append(one, path, frame())).toEqual([3]);
  });

  test("count both kinds for an expected offset, which an ephemeral event may have too", async () => {
    const path = newPath();
    await append(one, path, frame());
    expect(await append(one, path, frame(0, { offset: 3 }), { ...durable(), offset: 4 }, frame(0, { offset: 5 }))).toEqual([
      3, 4, 5,
    ]);
    await expect(append(one, path, frame(0, { offset: 5 }))).rejects.toMatchObject({
      code: "OFFSET_CONFLICT",
      data: { expected: 5, actual: 6 },
    });
    await expect(append(two, path, durable(), frame(0, { offset: 7 }))).rejects.toMatchObject({
      data: { expected: 7, actual: blockOffsets + 3 },
    });
  });

  test.each([
    ["an idempotency key", frame(0, { idempotencyKey: "k" }), "idempotency_key"],
    ["a control type", frame(0, { type: "events.iterate.com/itx/paused", payload: {} }), "ephemeral"],
  ])("refuse %s", async (_, event, field) => {
    await expect(append(one, newPath(), event)).rejects.toMatchObject({ code: "INVALID_INPUT", data: { field } });
  });

  test("hold for ephemeral events as for stored ones: size, pause, depth, epoch", async () => {
    const path = newPath();
    await append(one, path, frame());
    const body = (bytes: number): EventFields => frame(0, { payload: Buffer.from(JSON.stringify("x".repeat(bytes - 2))) });
    const limit = 8 * 1_048_576;
    await expect(append(one, path, body(limit + 1))).rejects.toMatchObject({ code: "EVENT_TOO_LARGE" });
    expect(await append(one, path, body(limit))).toEqual([3]);
    expect(await append(one, path, body(limit - 1))).toEqual([4]);
    const deep = code({ cause: { ...service.cause, depth: maxCauseDepth + 1 } });
    await expect(one.append(path, [frame()], { writer: deep })).rejects.toMatchObject({ code: "LOOP_LIMIT" });
    const { partition } = one.cache.peek(address(path))!;
    await one.append(path, [frame()], { writer: code({ lease: { partition, epoch: 5 } }) });
    await expect(one.append(path, [frame()], { writer: code({ lease: { partition, epoch: 4 } }) })).rejects.toMatchObject({
      code: "STALE_EPOCH",
    });
    await append(one, path, { type: "events.iterate.com/itx/paused", payload: { reason: "test" } });
    const before = heard(one, path).length;
    await expect(one.append(path, [frame()], { writer: person })).rejects.toMatchObject({ code: "STREAM_PAUSED" });
    expect(heard(one, path)).toHaveLength(before);
  });
});

describe("a repeated append", () => {
  test("of both kinds is answered where its events were, and told once", async () => {
    const path = newPath();
    const appendId = "018f0000-0000-7000-8000-000000000001";
    const events = [frame(1), durable(2), frame(3), durable(4), frame(5)];
    const first = offsetsOf(await one.append(path, events, { appendId }));
    const again = offsetsOf(await two.append(path, events, { appendId }));
    expect([first, again]).toEqual([upTo(6, 2), upTo(6, 2)]);
    expect(heard(two, path)).toEqual([]);
    for (const other of [[durable(2), durable(4)], events.slice(0, 3), [...events, durable(6)]]) {
      await expect(two.append(path, other, { appendId })).rejects.toMatchObject({ code: "IDEMPOTENCY_CONFLICT" });
    }
  });
});
