import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HeadConfirmer } from "./confirm.js";
import type { ContextAddress } from "./contract.js";
import { EventTypes } from "./event-types.js";
import { HeadCache } from "./head-cache.js";
import type { Page } from "./page.js";
import { LogReader } from "./read.js";
import { smallBodyBytes } from "./log-store.js";
import { PostgresLogStore } from "./postgres/postgres-log-store.js";
import { rowsReadBy } from "./postgres/query-plan.fixture.js";
import { eventsOfTypesInBlocks } from "./postgres/read.sql.js";
import { write, type WrittenEvent } from "./sql-log.fixture.js";
import { TypeBlocks } from "./type-blocks.js";

const database = useTestDatabase();
let pool: Pool;
let reader: LogReader;

beforeAll(async () => {
  await migrate({ url: database.url, dir: new URL("../../migrations", import.meta.url).pathname });
  pool = createPool({ url: database.url, applicationName: "read.test", max: 4 });
  reader = newReader();
});
afterAll(() => pool.end());

/** What another process would read through: nothing remembered. */
function newReader(): LogReader {
  const store = new PostgresLogStore(pool);
  return new LogReader({
    store,
    heads: new HeadConfirmer(new HeadCache({ maxContexts: 100, store })),
    types: new EventTypes(store),
    blocks: new TypeBlocks(store),
  });
}

let contexts = 0;
const newContext = (): ContextAddress => ({ owner: "prj_read", path: `/read/${++contexts}` });
const numbered = (from: number, to: number, type = "test/numbered"): WrittenEvent[] =>
  Array.from({ length: to - from + 1 }, (_, at) => ({ type, payload: `{"n":${from + at}}` }));
const offsets = (page: Page): number[] => page.events.map(({ offset }) => Number(offset));
const bounds = { limit: 500, maxBytes: 8_388_608 };

const contextIdOf = async ({ owner, path }: ContextAddress): Promise<number> =>
  Number(
    (await pool.query<{ context_id: string }>("select context_id from context where owner = $1 and path = $2", [owner, path]))
      .rows[0]!.context_id,
  );
const typesOf = async (name: string): Promise<number[]> =>
  (await pool.query<{ type: number }>("select type from event_type where name = $1", [name])).rows.map(({ type }) => type);

describe("a page of all events", () => {
  test("of a context not yet born is empty and at the head", async () => {
    expect(await reader.read(newContext(), 0, [], bounds)).toEqual({
      events: [],
      bytes: 0,
      scannedAfter: 0,
      scannedThrough: 0,
      isAtHead: true,
    });
  });

  test("[iterate-14] of exactly the number asked for that ends at the head says so", async () => {
    const address = newContext();
    await write(pool, address, numbered(1, 500));
    const exact = await reader.read(address, 0, [], bounds);
    expect(exact.events).toHaveLength(500);
    expect(exact).toMatchObject({ scannedThrough: 500, isAtHead: true });
    await write(pool, address, numbered(501, 501));
    const short = await reader.read(address, 0, [], bounds);
    expect(short.events).toHaveLength(500);
    expect(short).toMatchObject({ scannedThrough: 500, isAtHead: false });
    expect(await reader.read(address, 500, [], bounds)).toMatchObject({ scannedThrough: 501, isAtHead: true });
  });

  test("[iterate-13] proves how far it looked over offsets that hold no event", async () => {
    const address = newContext();
    await write(pool, address, numbered(1, 2));
    await write(pool, address, numbered(3, 4), 1_024);
    const cut = await reader.read(address, 0, [], { ...bounds, limit: 3 });
    expect([offsets(cut), cut.scannedThrough, cut.isAtHead]).toEqual([[1, 2, 1_027], 1_027, false]);
    const rest = await reader.read(address, cut.scannedThrough, [], bounds);
    expect([offsets(rest), rest.scannedThrough, rest.isAtHead]).toEqual([[1_028], 1_028, true]);
  });

  test("behind the head is empty and stays where it was asked", async () => {
    const address = newContext();
    await write(pool, address, numbered(1, 2));
    for (const after of [2, 3, 100])
      expect(await reader.read(address, after, [], bounds)).toEqual({
        events: [],
        bytes: 0,
        scannedAfter: after,
        scannedThrough: after,
        isAtHead: true,
      });
  });

  test("holds the bodies of no more than its bytes, and at least one event whatever its size", async () => {
    const address = newContext();
    const body = JSON.stringify("x".repeat(98));
    await write(
      pool,
      address,
      Array.from({ length: 6 }, () => ({ type: "test/sized", payload: body })),
    );
    await write(pool, address, [
      { type: "test/sized", payload: JSON.stringify("y".repeat(5_000)), metadata: JSON.stringify("z".repeat(5_000)) },
    ]);
    expect(offsets(await reader.read(address, 0, [], { limit: 500, maxBytes: 299 }))).toEqual([1, 2]);
    expect(offsets(await reader.read(address, 0, [], { limit: 500, maxBytes: 300 }))).toEqual([1, 2, 3]);
    expect(offsets(await reader.read(address, 0, [], { limit: 500, maxBytes: 301 }))).toEqual([1, 2, 3]);
    const upToLarge = await reader.read(address, 4, [], { limit: 500, maxBytes: 300 });
    expect([offsets(upToLarge), upToLarge.scannedThrough, upToLarge.isAtHead]).toEqual([[5, 6], 6, false]);
    const large = await reader.read(address, 6, [], { limit: 500, maxBytes: 300 });
    expect([offsets(large), large.scannedThrough, large.isAtHead]).toEqual([[7], 7, true]);
    expect(large.events[0]!.payload!.length + large.events[0]!.metadata!.length).toBe(10_004);
  });

  test("holds bodies of every size about what a first look sends, in their places", async () => {
    const address = newContext();
    const sizes = [10, smallBodyBytes - 1, smallBodyBytes, smallBodyBytes + 1, 20, 100_000, 1_000_000, 30];
    await write(
      pool,
      address,
      sizes.map((size) => ({ type: "test/sized", payload: JSON.stringify("x".repeat(size - 6)), metadata: "null" })),
    );
    const page = await reader.read(address, 0, [], bounds);
    expect(page.events.map(({ payload, metadata }) => payload!.length + metadata!.length)).toEqual(sizes);
    expect(page.bytes).toBe(sizes.reduce((sum, size) => sum + size, 0));
    const cut = await reader.read(address, 0, [], { limit: 500, maxBytes: 200_000 });
    expect(offsets(cut)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(offsets(await reader.read(address, 6, ["test/sized"], { limit: 500, maxBytes: 200_000 }))).toEqual([7]);
  });

  test("holds what was written, byte for byte", async () => {
    const address = newContext();
    const payload = '{"b":1.50,"a":[ 1e2,"\\u0000\\ud800 €😀"],"b2":12345678901234567890}';
    const source = {
      origin: "/a",
      cause: { chain: "c", depth: 3 },
      principal: "usr_1",
      processor: { slug: "s", version: "1", whileProcessing: { offset: 7, type: "t" } },
    };
    await write(pool, address, [
      { type: "test/exact", payload, metadata: " null ", key: "k", source: JSON.stringify(source) },
      { type: "test/exact", payload: null },
    ]);
    const [first, second] = (await reader.read(address, 0, [], bounds)).events;
    expect(Buffer.from(first!.payload!).toString()).toBe(payload);
    expect(Buffer.from(first!.metadata!).toString()).toBe(" null ");
    expect(first).toMatchObject({
      offset: 1n,
      type: "test/exact",
      idempotencyKey: "k",
      formatVersion: 1,
      source: {
        origin: "/a",
        cause: { chain: "c", depth: 3 },
        principal: "usr_1",
        processor: { slug: "s", version: "1", whileProcessingOffset: 7n, whileProcessingType: "t" },
        platform: false,
      },
    });
    const { rows } = await pool.query<{ us: string }>(
      `select (extract(epoch from created_at) * 1000000)::bigint as us from event where context_id = (select context_id from context where path = $1) and "offset" = 1`,
      [address.path],
    );
    expect(first!.createdAtUs).toBe(BigInt(rows[0]!.us));
    expect(second!.payload).toBeUndefined();
    expect(second!.source!.platform).toBe(true);
  });

  test("ends at a row it cannot read and goes on after it", async () => {
    const address = newContext();
    await write(pool, address, [{ type: "test/a" }, { type: "test/a", source: "{" }, { type: "test/a" }]);
    await expect(reader.read(address, 0, [], bounds)).rejects.toMatchObject({ code: "EVENT_UNREADABLE", data: { offset: 2 } });
    expect(offsets(await reader.read(address, 2, [], bounds))).toEqual([3]);
  });
});

describe("a page by type", () => {
  test("proves that what it left out does not match", async () => {
    const address = newContext();
    await write(pool, address, [{ type: "test/a" }, { type: "test/b" }, { type: "test/a" }, { type: "test/c" }]);
    const both = await reader.read(address, 0, ["test/a", "test/c", "test/never-written"], bounds);
    expect([offsets(both), both.scannedThrough, both.isAtHead]).toEqual([[1, 3, 4], 4, true]);
    const cut = await reader.read(address, 0, ["test/a"], { ...bounds, limit: 1 });
    expect([offsets(cut), cut.scannedThrough, cut.isAtHead]).toEqual([[1], 1, false]);
    expect(await reader.read(address, 0, ["test/never-written"], bounds)).toEqual({
      events: [],
      bytes: 0,
      scannedAfter: 0,
      scannedThrough: 4,
      isAtHead: true,
    });
  });

  test("of exactly the number asked for goes on to prove the rest", async () => {
    const address = newContext();
    await write(pool, address, [{ type: "test/a" }, { type: "test/b" }]);
    expect(await reader.read(address, 0, ["test/a"], { ...bounds, limit: 1 })).toMatchObject({ scannedThrough: 2, isAtHead: true });
  });

  test("looks at the blocks that hold the type, not at the log, once they are entered", async () => {
    const address = newContext();
    const total = 40_000;
    const rare = [3, 9_000, 9_001, 20_000, 39_999];
    await write(
      pool,
      address,
      Array.from({ length: total }, (_, at) => ({ type: rare.includes(at + 1) ? "test/rare" : "test/common" })),
    );
    const first = newReader();
    const page = await first.read(address, 0, ["test/rare"], bounds);
    expect([offsets(page), page.scannedThrough, page.isAtHead]).toEqual([rare, total, true]);
    const { rows } = await pool.query<{ through: string; blocks: string }>(
      `select (select through_block from type_block_mark where context_id = c.context_id) as through,
              (select count(*) from type_block join event_type using (type) where context_id = c.context_id and name = 'test/rare') as blocks
       from context c where path = $1`,
      [address.path],
    );
    expect(rows[0]).toEqual({ through: String(Math.floor((total + 1) / 1024)), blocks: "3" });
    const second = newReader();
    const again = await second.read(address, 3, ["test/rare"], { ...bounds, limit: 2 });
    expect([offsets(again), again.isAtHead]).toEqual([[9_000, 9_001], false]);
    expect(second.statements).toBe(1);
    const literals = [
      String(await contextIdOf(address)),
      "0",
      "501",
      `array[${(await typesOf("test/rare")).join()}]`,
      String(total),
    ];
    const { byRelation } = await rowsReadBy(pool, eventsOfTypesInBlocks, literals);
    const events = [...byRelation].filter(([relation]) => /^event_\d+$/.test(relation)).reduce((sum, [, rows]) => sum + rows, 0);
    expect(events).toBeLessThanOrEqual(3 * 1024);
    expect(events).toBeGreaterThanOrEqual(rare.length);
  });

  test("cut in the middle of any block or at its edge goes on without repeating or leaving out", async () => {
    const address = newContext();
    const wanted: number[] = [];
    await write(
      pool,
      address,
      Array.from({ length: 20_000 }, (_, at) => {
        const isWanted = at % 127 === 0 || Math.abs(((at + 1) % 1024) - 1) <= 1;
        if (isWanted) wanted.push(at + 1);
        return { type: isWanted ? "test/wanted" : "test/other" };
      }),
    );
    for (const limit of [1_000, 7, 64]) {
      const seen: number[] = [];
      const paging = newReader();
      for (let after = 0; ;) {
        const page = await paging.read(address, after, ["test/wanted"], { ...bounds, limit });
        seen.push(...offsets(page));
        if (page.isAtHead) break;
        after = page.scannedThrough;
      }
      expect(seen).toEqual(wanted);
    }
  });

  test("by several readers at once enters each block once and answers them all", async () => {
    const address = newContext();
    await write(
      pool,
      address,
      Array.from({ length: 30_000 }, (_, at) => ({ type: `test/t${at % 5}` })),
    );
    const pages = await Promise.all(
      Array.from({ length: 8 }, () => newReader().read(address, 0, ["test/t3"], { ...bounds, limit: 1_000 })),
    );
    for (const page of pages) expect(offsets(page)).toEqual(Array.from({ length: 1_000 }, (_, at) => at * 5 + 4));
  });

  test("holds no more than its bytes over several blocks", async () => {
    const address = newContext();
    const body = JSON.stringify("x".repeat(998));
    await write(
      pool,
      address,
      Array.from({ length: 12_000 }, (_, at) => (at % 1_500 === 0 ? { type: "test/big", payload: body } : { type: "test/small" })),
    );
    const page = await newReader().read(address, 0, ["test/big"], { limit: 500, maxBytes: 3_500 });
    expect([offsets(page), page.isAtHead]).toEqual([[1, 1_501, 3_001], false]);
  });
});
