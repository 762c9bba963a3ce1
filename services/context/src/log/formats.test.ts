/**
 * Three releases on one log, through the engine that ships: one that knows the first format of a type alone, one that reads both and
 * writes the first, and one whose deployment allows the second. Then the way back.
 */
import { collectCatalog, eventCatalog, eventType, itx, newestFormat, type EventTypeDeclaration } from "iterate/events";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { parseWrittenFormats, Vocabulary } from "../core/vocabulary.js";
import { HeadConfirmer, readableCore } from "./confirm.js";
import { address, migrateLog, readLog, startEngine, type EventFields, type TestEngine } from "./engine.fixture.js";
import { EventTypes } from "./event-types.js";
import { PostgresLogStore } from "./postgres/postgres-log-store.js";
import { LogReader } from "./read.js";
import { TypeBlocks } from "./type-blocks.js";

const first = z.object({ n: z.int() });
const countedFirst = eventType("test/counted", first, { description: "", writer: "anyone" });
const countedSecond = eventType("test/counted", z.object({ count: z.int(), unit: z.string() }), {
  description: "",
  writer: "anyone",
  earlier: [{ payload: first, upcast: (payload) => ({ count: (payload as z.infer<typeof first>).n, unit: "pieces" }) }],
});
/** A control type: what it means is folded, whichever format it was written in. */
const pausedSecond = eventType("itx/paused", z.object({ reason: z.string(), by: z.string() }), {
  description: "",
  writer: "anyone",
  control: true,
  earlier: [
    {
      payload: itx.paused.payload,
      upcast: (payload) => ({ reason: "none given", by: "someone", ...(payload as { reason?: string }) }),
    },
  ],
});

const catalogOf = (...changed: EventTypeDeclaration[]) =>
  new Map([...eventCatalog, ...collectCatalog({ test: { countedFirst } }), ...changed.map((each) => [each.type, each] as const)]);
const before = catalogOf();
const both = catalogOf(countedSecond, pausedSecond);
const allowed = parseWrittenFormats("test/counted=2,itx/paused=2", both);

const database = useTestDatabase();
let past: TestEngine;
let present: TestEngine;
let next: TestEngine;
beforeAll(async () => {
  await migrateLog(database.url);
  past = startEngine({ url: database.url, vocabulary: new Vocabulary({ catalog: before }) });
  present = startEngine({ url: database.url, vocabulary: new Vocabulary({ catalog: both }) });
  next = startEngine({ url: database.url, vocabulary: new Vocabulary({ catalog: both, writes: allowed }) });
});
afterAll(async () => {
  await Promise.all([past?.close(), present?.close(), next?.close()]);
});

const counted = (payload: unknown, formatVersion = 0): EventFields => ({ type: countedFirst.type, payload, formatVersion });
const paused = (payload: unknown): EventFields => ({ type: itx.paused.type, payload });

async function stored(path: string) {
  const store = new PostgresLogStore(present.pool);
  const heads = new HeadConfirmer(present.cache);
  const reader = new LogReader({ store, heads, types: new EventTypes(store), blocks: new TypeBlocks(store) });
  const page = await reader.read(address(path), 0, [countedFirst.type], { limit: 100, maxBytes: 1_000_000 });
  return page.events.map(({ formatVersion, payload }) => ({ formatVersion, text: Buffer.from(payload!).toString() }));
}

/** A release that folds another format folds by another version of its reducers, which has no rows yet. */
async function forgetFolds(): Promise<void> {
  await present.pool.query("delete from core_state");
}

/** The reason a context is paused for, as an engine that remembers nothing folds it. */
async function pauseSeenBy(catalog: ReadonlyMap<string, EventTypeDeclaration>, path: string): Promise<string | null | undefined> {
  await forgetFolds();
  const engine = startEngine({ url: database.url, vocabulary: new Vocabulary({ catalog }) });
  try {
    const [head] = await engine.cache.load([address(path)]);
    return head!.core.pause?.reason;
  } finally {
    await engine.close();
  }
}

test("the next release writes the new format once it is allowed, and the one before reads it and can come back", async () => {
  const path = "/upgrade";
  const resumed = { type: itx.resumed.type, payload: {} };
  await past.append(path, [counted({ n: 1 }), paused({})]);
  await present.append(path, [resumed, counted({ n: 2 }), paused({ reason: "tired" })]);
  expect((await present.cache.load([address(path)]))[0]!.core.pause).toMatchObject({ reason: "tired" });

  await next.append(path, [resumed, counted({ count: 3, unit: "boxes" }), paused({ reason: "full", by: "usr_a" })]);
  expect(await pauseSeenBy(both, path)).toBe("full");
  // The release before is back, and goes on with what the next one wrote.
  await present.append(path, [resumed, counted({ n: 4 })]);

  const rows = await stored(path);
  expect(rows).toEqual([
    { formatVersion: 1, text: '{"n":1}' },
    { formatVersion: 1, text: '{"n":2}' },
    { formatVersion: 2, text: '{"count":3,"unit":"boxes"}' },
    { formatVersion: 1, text: '{"n":4}' },
  ]);
  const lifted = rows.map(({ formatVersion, text }) =>
    newestFormat(countedSecond, { formatVersion, payload: JSON.parse(text) as unknown }),
  );
  expect(lifted).toEqual([1, 2, 3, 4].map((count) => ({ count, unit: count === 3 ? "boxes" : "pieces" })));
});

test("an earlier format is folded as the newest, from the log and from memory", async () => {
  await past.append("/fold", [paused({})]);
  expect(await pauseSeenBy(before, "/fold")).toBeNull();
  expect(await pauseSeenBy(both, "/fold")).toBe("none given");
  await present.append("/fold", [paused({})]);
  expect((await present.cache.load([address("/fold")]))[0]!.core.pause).toMatchObject({ reason: "none given", pausedAtOffset: 3 });
});

test("a release that does not know a format says so, changes nothing and goes on elsewhere", async () => {
  await next.append("/ahead", [paused({ reason: "new", by: "usr_a" })]);
  await forgetFolds();
  const logged = await readLog(past.pool, "/ahead");
  await expect(past.append("/ahead", [counted({ n: 1 })])).rejects.toMatchObject({
    code: "UPGRADE_REQUIRED",
    retryable: true,
    data: { type: itx.paused.type, formatVersion: 2, known: 1, offset: 2 },
  });
  const [head] = await past.cache.load([address("/ahead")]);
  expect(() => readableCore(head!)).toThrow(expect.objectContaining({ code: "UPGRADE_REQUIRED" }));
  expect(await readLog(past.pool, "/ahead")).toEqual(logged);
  await expect(past.append("/elsewhere", [counted({ n: 1 })])).resolves.toHaveLength(1);
  expect(past.faults).toEqual([]);
});

test("what a release cannot read holds up nothing that is written or asked beside it", async () => {
  const paths = ["/beside/1", "/beside/2", "/beside/3"];
  for (const path of paths) await past.append(path, [counted({ n: 1 })]);
  await next.append("/beside/2", [paused({ reason: "new", by: "usr_a" })]);
  const appends = paths.map((path) => past.append(path, [counted({ n: 2 })]));
  const outcomes = await Promise.allSettled(appends);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(outcomes[1]).toMatchObject({ reason: { code: "UPGRADE_REQUIRED" } });
  const heads = await past.cache.refresh(paths.map((path) => past.cache.peek(address(path))!.contextId));
  expect(heads.map((head) => head.unreadable?.code)).toEqual([undefined, "UPGRADE_REQUIRED", undefined]);
  await past.append("/beside/1", [counted({ n: 3 })]);
  expect(past.faults).toEqual([]);
}, 5_000);

test("a writer names the format of what it writes, and is held to it", async () => {
  const path = "/named";
  await next.append(path, [counted({ n: 1 }, 1), counted({ count: 1, unit: "boxes" }, 2)]);
  expect((await stored(path)).map(({ formatVersion }) => formatVersion)).toEqual([1, 2]);
  for (const [engine, fields] of [
    [present, counted({ count: 1, unit: "boxes" }, 2)],
    [next, counted({ count: 1, unit: "boxes" }, 3)],
    [next, counted({ count: 1, unit: "boxes" }, -1)],
    [next, counted({ n: 1 }, 2)],
    [next, counted({ count: 1, unit: "boxes" }, 1)],
    [next, counted({ n: 1 })],
    [present, counted({ count: 1, unit: "boxes" })],
    [present, { type: "example.com/opaque", payload: 1, formatVersion: 2 }],
  ] as const)
    await expect(engine.append(path, [fields])).rejects.toMatchObject({ code: "INVALID_INPUT" });
});

test.each([
  ["a type nobody knows", "itx/none=1"],
  ["a format nobody knows", "test/counted=3"],
  ["something else", "counted"],
  ["format 0", "test/counted=0"],
])("a deployment that allows %s is told at its start", (_what, text) => {
  expect(() => parseWrittenFormats(text, both)).toThrow(RangeError);
});
