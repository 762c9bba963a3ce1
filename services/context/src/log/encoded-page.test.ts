import { ReadEventsResponse, StreamEventsResponse } from "@iterate-platform/proto/iterate/context/v1/context";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { eventually, FaultProxy, useTestDatabase } from "@iterate-platform/testing";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HeadConfirmer } from "./confirm.js";
import type { ContextAddress } from "./contract.js";
import { EncodedPage } from "./encoded-page.js";
import { EventTypes } from "./event-types.js";
import { HeadCache } from "./head-cache.js";
import { smallBodyBytes } from "./log-store.js";
import { copyEventsAfter } from "./postgres/copied-events.js";
import { PostgresLogStore } from "./postgres/postgres-log-store.js";
import type { Page, PageBounds } from "./page.js";
import { LogReader } from "./read.js";
import { plainSource, write, type WrittenEvent } from "./sql-log.fixture.js";
import { streamEvents } from "./stream.js";
import { TypeBlocks } from "./type-blocks.js";

const database = useTestDatabase();
let pool: Pool;
let reader: LogReader;

beforeAll(async () => {
  await migrate({ url: database.url, dir: new URL("../../migrations", import.meta.url).pathname });
  pool = createPool({ url: database.url, applicationName: "encoded-page.test", max: 4 });
  reader = readerOn(pool);
});
afterAll(() => pool.end());

function readerOn(pool: Pool): LogReader {
  const store = new PostgresLogStore(pool);
  return new LogReader({
    store,
    heads: new HeadConfirmer(new HeadCache({ maxContexts: 100, store })),
    types: new EventTypes(store),
    blocks: new TypeBlocks(store),
  });
}

let contexts = 0;
const newContext = (): ContextAddress => ({ owner: "prj_encoded", path: `/encoded/${++contexts}` });
const plain: PageBounds = { limit: 1_000, maxBytes: 8_388_608 };
const anyForm: PageBounds = { ...plain, isAnyForm: true };
const many = (count: number, fields: Partial<WrittenEvent> = {}): WrittenEvent[] =>
  Array.from({ length: count }, (_, n) => ({ type: "test/many", payload: `{"n":${n}}`, ...fields }));

async function encoded(address: ContextAddress, after = 0, bounds = anyForm): Promise<EncodedPage> {
  const page = await reader.read(address, after, [], bounds);
  expect(page).toBeInstanceOf(EncodedPage);
  return page as EncodedPage;
}

/** The bytes of a page whose events are objects. */
const bytesOf = ({ events }: Page): Buffer =>
  Buffer.from(StreamEventsResponse.encode({ events: [...events], scannedThroughOffset: 0n, atHead: false }).finish());

const text = fc.oneof(fc.string(), fc.string({ unit: "binary" })).map((text) => text.toWellFormed().replaceAll("\0", ""));
const json = fc.oneof(
  { weight: 6, arbitrary: fc.json() },
  { weight: 1, arbitrary: fc.constantFrom("null", ' {"b":1.50,"a":[ 1e2,"\\u0000\\ud800 €😀"]} ') },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(smallBodyBytes - 1, smallBodyBytes, smallBodyBytes + 1, 40_000)
      .map((bytes) => JSON.stringify("x".repeat(bytes - 2))),
  },
);
const source = fc.oneof(
  { weight: 3, arbitrary: fc.constant(plainSource) },
  {
    weight: 2,
    arbitrary: fc
      .record(
        {
          origin: text,
          cause: fc.record({ chain: text, depth: fc.nat() }),
          principal: text,
          processor: fc.record(
            { slug: text, version: text, whileProcessing: fc.record({ offset: fc.maxSafeNat(), type: text }) },
            { requiredKeys: ["slug", "version"] },
          ),
          platform: fc.constant(true),
        },
        { requiredKeys: ["origin", "cause"] },
      )
      .map((stamp) => JSON.stringify(stamp)),
  },
);
const anyEvent = fc.record({
  type: fc.integer({ min: 0, max: 20 }).map((n) => `test/type-${n}`),
  payload: fc.option(json, { freq: 10 }),
  metadata: fc.option(json, { freq: 1 }),
  source,
  isKeyed: fc.boolean(),
  isTraced: fc.boolean(),
});

describe("an encoded page", () => {
  test("holds what the page of objects holds, byte for byte, wherever it is cut", { timeout: 60_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyEvent, { minLength: 70, maxLength: 160, size: "max" }),
        fc.integer({ min: 64, max: 200 }),
        fc.constantFrom(0, 3_000, 60_000, 8_388_608),
        async (events, limit, maxBytes) => {
          const address = newContext();
          const { contextId } = await write(
            pool,
            address,
            events.map(({ isKeyed, ...event }, n) => ({ ...event, ...(isKeyed ? { key: `${n}é` } : {}) })),
          );
          await pool.query(`update event set traceparent = 'trace ' || "offset" where context_id = $1 and "offset" = any($2)`, [
            contextId,
            events.flatMap(({ isTraced }, n) => (isTraced ? [n + 1] : [])),
          ]);
          // One that knows no type yet, and one that does.
          const fresh = readerOn(pool);
          for (let after = 0; ;) {
            const objects = await reader.read(address, after, [], { limit, maxBytes });
            const bytes = await fresh.read(address, after, [], { limit, maxBytes, isAnyForm: true });
            const { events, ...rest } = objects;
            expect(bytes).toMatchObject(rest);
            expect(bytes.events).toHaveLength(events.length);
            expect(bytesOf(bytes).equals(bytesOf(objects))).toBe(true);
            if (bytes instanceof EncodedPage) {
              expect(bytes.count).toBe(events.length);
              expect(bytes.message(Buffer.alloc(0)).equals(bytesOf(objects))).toBe(true);
            }
            if (objects.isAtHead) break;
            after = objects.scannedThrough;
          }
        },
      ),
      { numRuns: 12 },
    );
  });

  test("ends its message with the other fields of an answer", async () => {
    const address = newContext();
    await write(pool, address, many(100));
    const page = await encoded(address);
    const rest = { scannedThroughOffset: 7n, atHead: true, ephemeralsIncluded: true, scannedAfterOffset: 3n };
    const message = ReadEventsResponse.decode(page.message(ReadEventsResponse.encode({ events: [], ...rest }).finish()));
    expect(message).toMatchObject(rest);
    expect(message.events.map(({ offset }) => Number(offset))).toEqual(Array.from({ length: 100 }, (_, n) => n + 1));
  });

  test("is made where many events are expected, and for who takes it", async () => {
    const address = newContext();
    await write(pool, address, many(64));
    expect(await reader.read(address, 0, [], anyForm)).toBeInstanceOf(EncodedPage);
    expect(await reader.read(address, 1, [], anyForm)).not.toBeInstanceOf(EncodedPage);
    expect(await reader.read(address, 0, [], { ...anyForm, limit: 63 })).not.toBeInstanceOf(EncodedPage);
    expect(await reader.read(address, 0, ["test/many"], anyForm)).not.toBeInstanceOf(EncodedPage);
    expect(await reader.read(address, 0, [], plain)).not.toBeInstanceOf(EncodedPage);
  });

  test("is written into the memory of pages that were sent, and leaves those that were not alone", async () => {
    const address = newContext();
    await write(pool, address, many(100));
    const page = await encoded(address);
    const message = page.message(Buffer.alloc(0));
    const [sent, copy] = [message.buffer, Buffer.from(message)];
    const other = (await encoded(address)).message(Buffer.alloc(0));
    expect(other.buffer).not.toBe(sent);
    expect(message.equals(copy)).toBe(true);
    page.release();
    page.release();
    const [next, one] = [await encoded(address, 1), await encoded(address, 2)].map((page) => page.message(Buffer.alloc(0)).buffer);
    expect([next, one].filter((memory) => memory === sent)).toHaveLength(1);
  });

  test("says that events are gone rather than hold a part of the rest", async () => {
    const address = newContext();
    const { contextId } = await write(pool, address, many(200));
    await reader.read(address, 0, [], anyForm);
    await pool.query("insert into retention (context_id, first_offset) values ($1, 101)", [contextId]);
    // Asked for the start, it begins where the log begins now.
    expect(await encoded(address)).toMatchObject({ scannedAfter: 100, scannedThrough: 200, count: 100, isAtHead: true });
    await expect(reader.read(address, 5, [], anyForm)).rejects.toMatchObject({
      code: "OFFSET_TRUNCATED",
      data: { firstOffset: 101 },
    });
    expect(await encoded(address, 100)).toMatchObject({ scannedThrough: 200, count: 100 });
    // All of them, so that no row is left to say so.
    await pool.query("delete from event where context_id = $1", [contextId]);
    await pool.query("update retention set first_offset = 201 where context_id = $1", [contextId]);
    await expect(reader.read(address, 5, [], anyForm)).rejects.toMatchObject({
      code: "OFFSET_TRUNCATED",
      data: { firstOffset: 201 },
    });
  });

  test("with an event that cannot be read names the first of them, by whatever way it would have gone", async () => {
    const address = newContext();
    const events = many(100);
    events[70] = { type: "test/many", source: "[]" };
    events[80] = { type: "test/never seen", source: "{" };
    await write(pool, address, events);
    const unreadable = (offset: number) => ({ code: "EVENT_UNREADABLE", data: { offset } });
    for (const bounds of [plain, anyForm]) {
      await expect(readerOn(pool).read(address, 0, [], bounds)).rejects.toMatchObject(unreadable(71));
      await expect(readerOn(pool).read(address, 71, [], bounds)).rejects.toMatchObject(unreadable(81));
      const upTo = await reader.read(address, 0, [], { ...bounds, limit: 70 });
      expect(upTo).toMatchObject({ scannedThrough: 70, isAtHead: false });
    }
    await write(pool, address, many(100));
    await expect(reader.read(address, 75, [], anyForm)).rejects.toMatchObject(unreadable(81));
    events[60] = { type: "test/aside", source: "{" };
    const other = newContext();
    await write(pool, other, events);
    await expect(readerOn(pool).read(other, 0, [], anyForm)).rejects.toMatchObject(unreadable(61));
  });

  test("is read through an index of one partition", async () => {
    const address = newContext();
    const { contextId } = await write(pool, address, many(100));
    const select = /copy \(([^]*)\) to stdout/.exec(copyEventsAfter(contextId, 10, 50).text)![1]!;
    const { rows } = await pool.query<readonly [string]>({ text: `explain ${select}`, rowMode: "array" });
    const scans = rows.map(([line]) => line).filter((line) => line.includes(" on event_"));
    expect(scans).toHaveLength(1);
    expect(scans[0]).toMatch(/Index Scan using event_\d+_pkey/);
  });
});

describe("a database that goes away in the middle of a copy", () => {
  test("is UNAVAILABLE, and costs the connection alone", async () => {
    const address = newContext();
    const { contextId } = await write(pool, address, many(900, { payload: JSON.stringify("x".repeat(4_000)) }));
    const proxy = await FaultProxy.start(database.url);
    const one = createPool({ url: proxy.url(database.url), applicationName: "cut", max: 1 });
    const through = readerOn(one);
    try {
      expect(await through.read(address, 0, [], { ...anyForm, limit: 100 })).toMatchObject({ count: 100 });
      let copied = 0;
      const copying = new PostgresLogStore(one).copyEventsAfter(contextId, 0, 900, () => {
        copied += 1;
        if (copied === 100) proxy.reset();
      });
      await expect(copying).rejects.toMatchObject({ code: "UNAVAILABLE" });
      expect(copied).toBeLessThan(900);
      expect(await through.read(address, 0, [], anyForm)).toMatchObject({ count: 900, isAtHead: true });
      await one.query("set statement_timeout = 1");
      await expect(through.read(address, 0, [], anyForm)).rejects.toMatchObject({ code: "UNAVAILABLE" });
      await one.query("set statement_timeout = 5000");
      expect(await through.read(address, 0, [], anyForm)).toMatchObject({ count: 900 });
    } finally {
      await one.end(200);
      proxy.stop();
    }
  });
});

describe("a stream that is left in the middle of its past", () => {
  test("leaves the connections of the pool whole", async () => {
    const address = newContext();
    await write(pool, address, many(1_000, { payload: JSON.stringify("x".repeat(3_000)) }));
    const small = createPool({ url: database.url, applicationName: "left", max: 1 });
    const store = new PostgresLogStore(small);
    const heads = new HeadConfirmer(new HeadCache({ maxContexts: 10, store }));
    const parts = {
      reader: readerOn(small),
      heads,
      live: {
        listen: () => ({
          head: undefined,
          take: () => undefined,
          ephemeralsWithin: () => [],
          whenAbove: () => new Promise<void>(() => undefined),
          doubt: () => Promise.resolve(),
          close: () => undefined,
        }),
      },
      nowMs: () => performance.now(),
    };
    try {
      const before = (await small.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
      for (let time = 0; time < 5; time += 1) {
        const leaving = new AbortController();
        const stream = streamEvents(parts, { address, after: 0, types: [] }, leaving.signal);
        const first = (await stream.next()).value;
        expect(first).toBeInstanceOf(EncodedPage);
        // The next one is on its way.
        leaving.abort(new Error("the reader left"));
        await stream.return(undefined as never);
      }
      expect((await small.query<{ pid: number }>("select pg_backend_pid() as pid")).rows).toEqual(before);
      await eventually(() => small.counts.idle === 1 && small.counts.open === 1);
      expect((await readerOn(small).read(address, 0, [], anyForm)).events.map(({ offset }) => Number(offset))).toEqual(
        Array.from({ length: 1_000 }, (_, n) => n + 1),
      );
    } finally {
      await small.end(200);
    }
  });
});
