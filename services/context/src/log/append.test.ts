import { useTestDatabase } from "@iterate-platform/testing";
import { itx, project, secret } from "iterate/events";
import { isCodedError, type CodedError } from "iterate/lib";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Writer } from "../caller/contract.js";
import {
  address,
  code,
  event,
  migrateLog,
  owner,
  person,
  readLog,
  service,
  startEngine,
  type EventFields,
  type TestEngine,
} from "./engine.fixture.js";
import { appendLimits } from "./limits.js";
import { statementCounts } from "./postgres/sql-session.js";

const database = useTestDatabase();
let engine: TestEngine;
/** A context of its own for each test. */
let path: string;
let count = 0;

beforeAll(async () => {
  await migrateLog(database.url);
  engine = startEngine({ url: database.url });
});
afterAll(() => engine.close());
beforeEach(() => {
  path = `/test/${(count += 1)}`;
  engine.committed.length = 0;
});

const refusal = async (work: Promise<unknown>): Promise<CodedError> => {
  const error: unknown = await work.then(
    () => new Error("it was not refused"),
    (error: unknown) => error,
  );
  if (!isCodedError(error)) throw error;
  return error;
};
const offsets = (receipts: readonly { offset: number }[]): number[] => receipts.map(({ offset }) => offset);
const logOffsets = async (): Promise<number[]> => (await readLog(engine.pool, path)).map(({ offset }) => offset);
/** Brings the log to `head` events. */
const grow = async (head: number): Promise<void> =>
  void (await engine.append(
    path,
    Array.from({ length: head - 1 }, () => ({})),
  ));
/** Statements sent by `work`. */
const statements = async (work: () => Promise<unknown>): Promise<Record<string, number>> => {
  statementCounts.clear();
  await work();
  return Object.fromEntries(statementCounts);
};

describe("an append", () => {
  it("[iterate-1] of three events takes the next offsets, in one commit, one statement and one call of observers", async () => {
    await grow(4);
    engine.committed.length = 0;
    const sent = await statements(async () => expect(offsets(await engine.append(path, [{}, {}, {}]))).toEqual([5, 6, 7]));
    expect(sent).toEqual({ commit: 1 });
    expect(engine.committed).toHaveLength(1);
    expect(engine.committed[0]!.commits).toMatchObject([
      { commitNo: 2, firstOffset: 5, lastOffset: 7, head: { lastOffset: 7, commitNo: 2 } },
    ]);
  });

  it("[iterate-2] of no event writes nothing, not even its context", async () => {
    expect(await engine.append(path, [])).toEqual([]);
    expect(await engine.cache.load([address(path)])).toEqual([undefined]);
    await grow(3);
    engine.committed.length = 0;
    expect(await statements(async () => expect(await engine.append(path, [])).toEqual([]))).toEqual({});
    expect(engine.committed).toEqual([]);
  });

  it("gives birth to its context, whose first event says so on behalf of the same chain", async () => {
    expect(offsets(await engine.append(path, [{ payload: 1 }], { writer: person }))).toEqual([2]);
    const [created, first] = await readLog(engine.pool, path);
    expect(created).toMatchObject({
      offset: 1,
      type: itx.created.type,
      source: { origin: path, platform: true, cause: person.cause },
    });
    expect(JSON.parse(created!.payload!)).toEqual({ owner, path });
    expect(first).toMatchObject({ offset: 2, source: { origin: "/", principal: "usr_test", cause: person.cause } });
    expect(engine.cache.peek(address(path))!.core.identity).toEqual({ owner, path, createdAtOffset: 1 });
  });

  it("gives every context the number of its partition and its place in it", async () => {
    await engine.append(path, [{}]);
    const head = engine.cache.peek(address(path))!;
    expect(Math.floor(head.contextId / 2 ** 40)).toBe(head.partition);
  });

  it("[iterate-9] keeps 3 MB of surrogate pairs, odd spellings and order byte for byte", async () => {
    const large = Buffer.from(JSON.stringify("\u{1F680}".repeat(750_000)));
    const odd = Buffer.from(' {"b" : 1.50e0, "a":"\\u0000\\ud800\\/\u2028", "n":12345678901234567890}\n');
    await engine.append(path, [event({ payload: large }), event({ payload: odd, metadata: odd })]);
    const [, first, second] = await readLog(engine.pool, path);
    expect(Buffer.from(first!.payload!).equals(large)).toBe(true);
    expect(second).toMatchObject({ payload: odd.toString(), metadata: odd.toString() });
  });

  it("keeps an absent payload apart from null", async () => {
    await engine.append(path, [{}, { payload: null }]);
    expect((await readLog(engine.pool, path)).slice(1).map(({ payload }) => payload)).toEqual([null, "null"]);
  });
});

describe("an idempotency key", () => {
  it("[iterate-3] answers the event it names, at no cost in offsets and unheard by observers", async () => {
    const [first] = await engine.append(path, [{ payload: { n: 1 }, idempotencyKey: "K" }]);
    engine.committed.length = 0;
    const [again] = await engine.append(path, [{ payload: { n: 1 }, idempotencyKey: "K" }]);
    expect(again).toEqual({ ...first, existing: true });
    expect(engine.committed).toEqual([]);
    expect(await logOffsets()).toEqual([1, 2]);
  });

  it("[iterate-4] with another body refuses the whole batch and names the event", async () => {
    await engine.append(path, [{ payload: 1, idempotencyKey: "K" }]);
    const error = await refusal(engine.append(path, [{}, { payload: 2, idempotencyKey: "K" }]));
    expect(error).toMatchObject({ code: "IDEMPOTENCY_CONFLICT", data: { existingOffset: 2 } });
    expect(await logOffsets()).toEqual([1, 2]);
  });

  it("[iterate-5] twice in one batch is one event", async () => {
    const receipts = await engine.append(path, [{ payload: 1, idempotencyKey: "K" }, {}, { payload: 1, idempotencyKey: "K" }]);
    expect(receipts.map(({ offset, existing }) => [offset, existing])).toEqual([
      [2, false],
      [3, false],
      [2, true],
    ]);
    expect(await logOffsets()).toEqual([1, 2, 3]);
  });

  it("twice in one batch with different bodies refuses the batch", async () => {
    const error = await refusal(
      engine.append(path, [
        { payload: 1, idempotencyKey: "K" },
        { payload: 2, idempotencyKey: "K" },
      ]),
    );
    expect(error.code).toBe("IDEMPOTENCY_CONFLICT");
    expect(await engine.cache.load([address(path)])).toEqual([undefined]);
  });

  it("[iterate-16] does not mind the order of keys", async () => {
    const [first] = await engine.append(path, [
      { payload: { a: 1, b: { c: 2, d: [3] } }, metadata: { x: 1, y: 2 }, idempotencyKey: "K" },
    ]);
    const [again] = await engine.append(path, [
      { payload: { b: { d: [3], c: 2 }, a: 1 }, metadata: { y: 2, x: 1 }, idempotencyKey: "K" },
    ]);
    expect(again).toEqual({ ...first, existing: true });
  });

  it("that is in flight waits for that commit", async () => {
    await grow(2);
    const all = await Promise.all(Array.from({ length: 20 }, () => engine.append(path, [{ payload: 1, idempotencyKey: "K" }])));
    expect(new Set(all.flatMap(offsets))).toEqual(new Set([3]));
    expect(all.flat().filter(({ existing }) => !existing)).toHaveLength(1);
  });

  it("belongs to its context alone", async () => {
    await engine.append(path, [{ payload: 1, idempotencyKey: "K" }]);
    expect(await engine.append(`${path}/other`, [{ payload: 2, idempotencyKey: "K" }])).toMatchObject([
      { offset: 2, existing: false },
    ]);
  });

  it("mixes with new events: they follow each other", async () => {
    await engine.append(path, [{ payload: 1, idempotencyKey: "K" }]);
    const receipts = await engine.append(path, [{}, { payload: 1, idempotencyKey: "K" }, {}]);
    expect(receipts.map(({ offset, existing }) => [offset, existing])).toEqual([
      [3, false],
      [2, true],
      [4, false],
    ]);
  });

  it("meeting what the same handler wrote for the same event before answers the stored event", async () => {
    const processor = { slug: "triage", version: "1", whileProcessing: { offset: 4, type: "example.com/asked" } };
    const [first] = await engine.append(path, [{ payload: 1, idempotencyKey: "K", processor }], { writer: code() });
    expect(await engine.append(path, [{ payload: 2, idempotencyKey: "K", processor }], { writer: code() })).toEqual([
      { ...first, existing: true },
    ]);
    const other = { ...processor, whileProcessing: { offset: 5, type: "example.com/asked" } };
    expect(
      (await refusal(engine.append(path, [{ payload: 2, idempotencyKey: "K", processor: other }], { writer: code() }))).code,
    ).toBe("IDEMPOTENCY_CONFLICT");
    expect(engine.writer.counters.emitDivergences).toBe(1);
  });
});

describe("a paused context", () => {
  it("[iterate-6] answers a key that is taken and refuses the rest", async () => {
    const [first] = await engine.append(path, [{ payload: 1, idempotencyKey: "K" }]);
    await engine.append(path, [{ type: itx.paused.type, payload: { reason: "quota" } }], { writer: person });
    expect(await engine.append(path, [{ payload: 1, idempotencyKey: "K", offset: 99 }], { writer: person })).toEqual([
      { ...first, existing: true },
    ]);
    const error = await refusal(engine.append(path, [{}], { writer: person }));
    expect(error).toMatchObject({ code: "STREAM_PAUSED", data: { pausedAtOffset: 3 } });
    expect(error.message).toBe("the context has been paused since offset 3, until events.iterate.com/itx/resumed");
    await engine.append(path, [{ type: itx.resumed.type, payload: {} }, {}], { writer: person });
    expect(await logOffsets()).toEqual([1, 2, 3, 4, 5]);
  });

  const failure = { code: "CODE_FAILED", message: "" };
  const records: readonly EventFields[] = [
    { type: itx.subscriptionDeliveryHalted.type, payload: { name: "a", afterOffset: 0, attempts: 1, error: failure } },
    { type: itx.subscriptionDeliveryFailed.type, payload: { name: "a", emit: "1", type: "x", error: failure } },
    { type: itx.workFailed.type, payload: { facet: "a", error: failure } },
  ];
  it("[iterate-15] takes the exempt types, nothing else from anybody, and always a resume", async () => {
    await engine.append(path, [{ type: itx.paused.type, payload: {} }], { writer: person });
    for (const record of records) await engine.append(path, [record]);
    await engine.append(path, [{ type: itx.paused.type, payload: { reason: "still" } }], { writer: code() });
    for (const writer of [person, code(), code({ isPlatform: true }), service])
      for (const fields of [{}, { type: itx.subscriptionDeliveryResumed.type, payload: { name: "a" } }])
        expect((await refusal(engine.append(path, [fields], { writer }))).code).toBe("STREAM_PAUSED");
    // The batch is one: what is refused keeps the rest out.
    expect((await refusal(engine.append(path, [records[0]!, {}]))).code).toBe("STREAM_PAUSED");
    await engine.append(path, [{ type: itx.resumed.type, payload: {} }, {}], { writer: person });
    expect(await logOffsets()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });
});

describe("an expected offset", () => {
  it("[iterate-7] that is not the next one refuses the batch", async () => {
    await grow(7);
    expect(await refusal(engine.append(path, [{ offset: 9 }]))).toMatchObject({
      code: "OFFSET_CONFLICT",
      data: { expected: 9, actual: 8 },
    });
    expect(await refusal(engine.append(path, [{}, { offset: 8 }]))).toMatchObject({ data: { expected: 8, actual: 9 } });
    expect(offsets(await engine.append(path, [{ offset: 8 }, {}, { offset: 10 }]))).toEqual([8, 9, 10]);
  });

  it("is judged by the database when memory is behind", async () => {
    await grow(2);
    const other = startEngine({ url: database.url });
    await other.append(path, [{}]);
    await other.close();
    expect(engine.cache.peek(address(path))!.lastOffset).toBe(2);
    expect(offsets(await engine.append(path, [{ offset: 4 }]))).toEqual([4]);
  });

  it("under a taken key is not looked at", async () => {
    const [first] = await engine.append(path, [{ payload: 1, idempotencyKey: "K" }]);
    expect(await engine.append(path, [{ payload: 1, idempotencyKey: "K", offset: 77 }])).toEqual([{ ...first, existing: true }]);
  });
});

describe("what may be appended", () => {
  const sized = (bytes: number): Buffer => Buffer.from(`"${"x".repeat(bytes - 2)}"`);

  it("[iterate-8] a body one byte over 8 MiB refuses the batch; the next append takes its offsets", async () => {
    const error = await refusal(engine.append(path, [event({}), event({ payload: sized(appendLimits.eventBytes + 1) })]));
    expect(error).toMatchObject({
      code: "EVENT_TOO_LARGE",
      data: { bytes: appendLimits.eventBytes + 1, limit: appendLimits.eventBytes },
    });
    expect(offsets(await engine.append(path, [{}]))).toEqual([2]);
  });

  it("takes a body of exactly 8 MiB, payload and metadata together, alone on its connection", async () => {
    const half = appendLimits.eventBytes / 2;
    expect(offsets(await engine.append(path, [event({ payload: sized(half), metadata: sized(half) })]))).toEqual([2]);
    expect((await refusal(engine.append(path, [event({ payload: sized(half), metadata: sized(half + 1) })]))).code).toBe(
      "EVENT_TOO_LARGE",
    );
  });

  it("takes 16 MiB in all and not one byte more", async () => {
    const type = "t";
    const rest = (total: number) => [
      event({ type, payload: sized(appendLimits.eventBytes) }),
      event({ type, payload: sized(total - appendLimits.eventBytes - 2) }),
    ];
    expect((await refusal(engine.append(path, rest(appendLimits.batchBytes + 1)))).code).toBe("BATCH_TOO_LARGE");
    expect(offsets(await engine.append(path, rest(appendLimits.batchBytes)))).toEqual([2, 3]);
  });

  it.each([
    ["1,000 events", Array.from({ length: 1_000 }, () => ({})), null],
    ["1,001 events", Array.from({ length: 1_001 }, () => ({})), "BATCH_TOO_LARGE"],
    ["a type of 256 bytes", [{ type: "é".repeat(128) }], null],
    ["a type of 257 bytes", [{ type: `${"é".repeat(128)}x` }], "INVALID_INPUT"],
    ["a key of 512 bytes", [{ idempotencyKey: "é".repeat(256) }], null],
    ["a key of 513 bytes", [{ idempotencyKey: `${"é".repeat(256)}x` }], "INVALID_INPUT"],
    ["an empty type", [{ type: "" }], "INVALID_INPUT"],
    ["a blank type", [{ type: " \t" }], "INVALID_INPUT"],
    ["a NUL in a type", [{ type: "a\0b" }], "INVALID_INPUT"],
    ["a lone surrogate in a type", [{ type: "a\ud800" }], "INVALID_INPUT"],
    ["a NUL in a key", [{ idempotencyKey: "a\0b" }], "INVALID_INPUT"],
    ["a lone surrogate in a key", [{ idempotencyKey: "\udc00" }], "INVALID_INPUT"],
    ["a NUL in a processor's slug", [{ processor: { slug: "a\0", version: "1", whileProcessing: null } }], "INVALID_INPUT"],
    ["a processor without a slug", [{ processor: { slug: "", version: "1", whileProcessing: null } }], "INVALID_INPUT"],
    ["an expected offset of 0", [{ offset: 0 }], "INVALID_INPUT"],
    ["an expected offset beyond 2^53", [{ offset: 2 ** 53 }], "INVALID_INPUT"],
    ["an unknown type of the platform", [{ type: "events.iterate.com/itx/no-such-type" }], "INVALID_INPUT"],
    ["a type for tests", [{ type: "events.iterate.com/test/anything" }], null],
    ["a payload that is no JSON", [{ payload: Buffer.from("{") }], "INVALID_JSON"],
    ["an empty payload", [{ payload: Buffer.alloc(0) }], "INVALID_JSON"],
    ["a metadata that repeats a key", [{ metadata: Buffer.from('{"a":1,"a":1}') }], "INVALID_JSON"],
    ["a payload that is not UTF-8", [{ payload: Buffer.from([0x22, 0xff, 0x22]) }], "INVALID_JSON"],
    ["a payload nested 129 deep", [{ payload: Buffer.from("[".repeat(129) + "]".repeat(129)) }], "INVALID_JSON"],
  ] as const)("%s", async (_, events, expected) => {
    const work = engine.append(path, events);
    if (expected === null) expect(await work).toHaveLength(events.length);
    else {
      expect((await refusal(work)).code).toBe(expected);
      expect(await logOffsets()).toEqual([]);
    }
  });

  it.each([
    ["/a/../b", "INVALID_CONTEXT"],
    ["a", "INVALID_CONTEXT"],
    [`/${"x".repeat(1_024)}`, "INVALID_CONTEXT"],
    [`/${"x".repeat(1_023)}`, null],
  ])("a context path like %s", async (path, expected) => {
    const work = engine.append(path, [{}]);
    if (expected === null) await work;
    else expect((await refusal(work)).code).toBe(expected);
  });

  it("an owner that is no project is no context", async () => {
    expect((await refusal(engine.append(path, [{}], { address: { owner: "prj_nobody", path } }))).code).toBe("INVALID_CONTEXT");
  });

  it("an append id that is no UUID is refused", async () => {
    expect((await refusal(engine.append(path, [{}], { appendId: "1" }))).code).toBe("INVALID_INPUT");
  });
});

describe("who may append", () => {
  it("[iterate-17] the source is stamped, never taken from the writer", async () => {
    const writer = code({ origin: "/x", principal: "usr_1", cause: { chain: "c", depth: 3 } });
    const forged = { source: { origin: "/forged", platform: true, principal: "root" } };
    await engine.append(
      path,
      [{ payload: forged, metadata: forged, processor: { slug: "p", version: "2", whileProcessing: null } }],
      { writer },
    );
    const [, stored] = await readLog(engine.pool, path);
    expect(stored!.source).toEqual({
      origin: "/x",
      cause: { chain: "c", depth: 3 },
      principal: "usr_1",
      processor: { slug: "p", version: "2" },
    });
  });

  it("a service that writes for itself writes from the context it writes to", async () => {
    await engine.append(path, [{}]);
    expect((await readLog(engine.pool, path))[1]!.source).toMatchObject({ origin: path, platform: true });
  });

  it.each([
    [itx.created.type, { owner, path: "/" }],
    [itx.subscriptionDeliveryHalted.type, { name: "a", afterOffset: 0, attempts: 1, error: { code: "X", message: "" } }],
    [project.workerUpdated.type, { commitOid: "", generation: 1, digest: "", modules: {} }],
    [secret.secretSet.type, { path: "/secrets/a", urls: [], sealed: { keyId: "", wrappedKey: "", box: "" } }],
    ["events.iterate.com/github/webhook-received", { delivery: { id: "", name: "" }, body: {} }],
  ])("[iterate-18] %s is the platform's to append", async (type, payload) => {
    for (const writer of [person, code()]) {
      expect((await refusal(engine.append(path, [{ type, payload }], { writer }))).code).toBe("FORBIDDEN");
    }
    expect(await engine.append(path, [{ type, payload }], { writer: code({ isPlatform: true }) })).toHaveLength(1);
  });

  it.each([
    ["[iterate-41] itx/run-settled:9", "itx/run-settled:9", { person: false, code: false }],
    ["project/created:1", "project/created:1", { person: false, code: false }],
    ["repo@x", "repo@x", { person: false, code: false }],
    ["secret/z", "secret/z", { person: false, code: false }],
    ["itx/emit:1, which the runner makes for what code emits,", "itx/emit:1", { person: false, code: true }],
    ["itx:/a@3:append:/:x, of a subscription named itx,", "itx:/a@3:append:/:x", { person: false, code: true }],
    ["mine/itx/1", "mine/itx/1", { person: true, code: true }],
    ["itxs/1", "itxs/1", { person: true, code: true }],
    ["account/1, outside of the global contexts,", "account/1", { person: true, code: true }],
  ])("the key %s is for those it is made for", async (_what, idempotencyKey, may) => {
    for (const [writer, isAdmitted] of [
      [person, may.person],
      [code(), may.code],
      [code({ isPlatform: true }), true],
    ] as const) {
      const appending = engine.append(path, [{ idempotencyKey }], { writer });
      if (isAdmitted) expect(await appending).toHaveLength(1);
      else expect((await refusal(appending)).code).toBe("FORBIDDEN");
    }
  });

  it.each(["account/1", "organization/o"])("the key %s of a global context is the platform's", async (idempotencyKey) => {
    const appendAs = (writer: Writer) => engine.append(path, [{ idempotencyKey }], { address: { owner: "global", path }, writer });
    expect((await refusal(appendAs(person))).code).toBe("FORBIDDEN");
    expect((await refusal(appendAs(code({ owner: "global" })))).code).toBe("FORBIDDEN");
    expect(await appendAs(service)).toHaveLength(1);
  });

  it("code reaches no other project", async () => {
    const other = "prj_11111111111111111111111111";
    expect((await refusal(engine.append(path, [{}], { address: { owner: other, path }, writer: code() }))).code).toBe("FORBIDDEN");
  });
});

describe("a refused batch", () => {
  it("[iterate-24] leaves nothing behind: no event, no offset, nothing for observers to hear", async () => {
    await grow(2);
    engine.committed.length = 0;
    await refusal(engine.append(path, [{ type: "example.com/phantom" }, { offset: 99 }]));
    expect(engine.committed).toEqual([]);
    expect(offsets(await engine.append(path, [{}]))).toEqual([3]);
    const { rows } = await engine.pool.query("select from event_type where name = 'example.com/phantom'");
    expect(rows).toEqual([]);
  });

  it("does not hold up the appends it shares a group with", async () => {
    await grow(2);
    const results = await Promise.allSettled([
      engine.append(path, [{}]),
      engine.append(path, [{}, { offset: 99 }]),
      engine.append(path, [{}, {}]),
      engine.append(path, [{ payload: 1, idempotencyKey: "a" }]),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled", "fulfilled"]);
    expect(await logOffsets()).toEqual([1, 2, 3, 4, 5, 6]);
  });
});

describe("the epoch of a lease", () => {
  const under = (epoch: number, partition = engine.cache.peek(address(path))!.partition) => code({ lease: { partition, epoch } });

  it("is kept by the commit, and an older one is refused from then on", async () => {
    await grow(2);
    await engine.append(path, [{}], { writer: under(5) });
    expect(engine.cache.peek(address(path))!.runnerEpoch).toBe(5);
    expect(await refusal(engine.append(path, [{}], { writer: under(4) }))).toMatchObject({
      code: "STALE_EPOCH",
      data: { epoch: 4, current: 5 },
    });
    expect(await engine.append(path, [{}], { writer: under(5) })).toHaveLength(1);
    expect(await engine.append(path, [{}])).toHaveLength(1);
  });

  it("is raised by an append of no event, and refused to the former owner through another process too", async () => {
    await grow(2);
    const other = startEngine({ url: database.url });
    await other.append(path, [{}], { writer: under(6) });
    expect(await engine.append(path, [], { writer: under(7) })).toEqual([]);
    expect(engine.committed.at(-1)!.commits).toMatchObject([
      { firstOffset: 4, lastOffset: 3, rows: [], head: { lastOffset: 3, runnerEpoch: 7 } },
    ]);
    expect((await refusal(other.append(path, [{}], { writer: under(6) }))).code).toBe("STALE_EPOCH");
    expect(offsets(await engine.append(path, [{}], { writer: under(7) }))).toEqual([4]);
    await other.close();
  });

  it("of another partition says nothing", async () => {
    await grow(2);
    await engine.append(path, [{}], { writer: under(9) });
    const elsewhere = (engine.cache.peek(address(path))!.partition + 1) % 256;
    expect(await engine.append(path, [{}], { writer: under(1, elsewhere) })).toHaveLength(1);
  });
});

describe("a chain of reactions", () => {
  const at = (depth: number) => code({ cause: { chain: `chain of ${path}`, depth } });

  it("[iterate-84] ends at depth 8: nine events, one loop-limit fact, and reads still answer", async () => {
    for (let depth = 0; depth <= 8; depth += 1)
      await engine.append(path, [{ idempotencyKey: `reaction ${depth}`, payload: depth }], { writer: at(depth) });
    for (const depth of [9, 9, 10]) {
      expect(await refusal(engine.append(path, [{ payload: depth }], { writer: at(depth) }))).toMatchObject({
        code: "LOOP_LIMIT",
        data: { depth, limit: 8 },
      });
    }
    const log = await readLog(engine.pool, path);
    expect(log.filter(({ type }) => type === "example.com/happened").map(({ source }) => source.cause.depth)).toEqual([
      0, 1, 2, 3, 4, 5, 6, 7, 8,
    ]);
    expect(log.filter(({ type }) => type === itx.loopLimit.type)).toMatchObject([
      { key: `itx/loop-limit:chain of ${path}`, source: { platform: true, origin: path } },
    ]);
    expect((await engine.cache.refresh([engine.cache.peek(address(path))!.contextId]))[0]!.lastOffset).toBe(log.length);
  });

  it("is answered what it wrote before, however deep it is", async () => {
    const [first] = await engine.append(path, [{ payload: 1, idempotencyKey: "K" }], { writer: at(8) });
    expect(await engine.append(path, [{ payload: 1, idempotencyKey: "K" }], { writer: at(9) })).toEqual([
      { ...first, existing: true },
    ]);
  });

  it("[iterate-86] beyond the limit gives birth to nothing", async () => {
    expect((await refusal(engine.append(path, [{}], { writer: at(9) }))).code).toBe("LOOP_LIMIT");
    expect(await engine.cache.load([address(path)])).toEqual([undefined]);
  });
});

describe("a repeated append", () => {
  const appendId = (ms: number): string => {
    const hex = ms.toString(16).padStart(12, "0");
    return `${hex.slice(0, 8)}-${hex.slice(8)}-7abc-8abc-${(count + 1e11).toString(16).padStart(12, "0")}`;
  };

  it.each([
    ["made just now", () => Date.now()],
    ["made an hour ago", () => Date.now() - 3_600_000],
  ])("with an id %s is answered where its events are", async (_, ms) => {
    await grow(3);
    await engine.append(path, [{ payload: "k", idempotencyKey: "K" }]);
    const fields = { appendId: appendId(ms()) };
    const events = [
      {},
      { payload: "k", idempotencyKey: "K" },
      { payload: "n", idempotencyKey: "N" },
      { payload: "n", idempotencyKey: "N" },
      {},
    ];
    const first = await engine.append(path, events, fields);
    expect(offsets(first)).toEqual([5, 4, 6, 6, 7]);
    await engine.append(path, [{}]);
    expect(await engine.append(path, events, fields)).toEqual(first);
    expect(await logOffsets()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(engine.faults).toEqual([]);
  });

  it("by the thousand, made an hour ago, costs a few statements and keeps its order", async () => {
    await grow(2);
    const old = Date.now() - 3_600_000;
    const ids = Array.from({ length: 1_000 }, (_, index) => ((count += 1), appendId(old + index)));
    const send = () => Promise.all(ids.map((appendId, index) => engine.append(path, [{ payload: index }], { appendId })));
    const first = await send();
    expect(first.flatMap(offsets)).toEqual(ids.map((_, index) => index + 3));
    const sent = await statements(async () => expect(await send()).toEqual(first));
    expect(sent).toEqual({ committed_appends: 1, stored_bodies: 1 });
  });

  it.each([
    ["another payload", [{ payload: 1 }, { payload: 3 }]],
    ["one event more", [{ payload: 1 }, { payload: 2 }, { payload: 3 }]],
    ["one event less", [{ payload: 1 }]],
    ["another type", [{ payload: 1 }, { type: "other", payload: 2 }]],
    ["a key", [{ payload: 1 }, { payload: 2, idempotencyKey: "k" }]],
  ])("with %s under the id is a conflict, stored or under way, and commits nothing", async (_what, other) => {
    const sent = [{ payload: 1 }, { payload: 2 }];
    for (const madeAt of [Date.now() - 3_600_000, Date.now()]) {
      const fields = { appendId: appendId(madeAt) };
      const [first, second] = await Promise.allSettled([engine.append(path, sent, fields), engine.append(path, other, fields)]);
      expect(first.status).toBe("fulfilled");
      expect(second).toMatchObject({ status: "rejected", reason: { code: "IDEMPOTENCY_CONFLICT" } });
      const head = (await logOffsets()).length;
      await expect(engine.append(path, other, fields)).rejects.toMatchObject({ code: "IDEMPOTENCY_CONFLICT" });
      expect(await engine.append(path, sent, fields)).toEqual(first.status === "fulfilled" ? first.value : []);
      await engine.append(path, [{ payload: "after" }]);
      expect(await engine.append(path, sent, fields), "also when the log went on").toEqual(
        first.status === "fulfilled" ? first.value : [],
      );
      expect(await logOffsets()).toHaveLength(head + 1);
    }
  });

  it("under way is answered together with the first", async () => {
    const fields = { appendId: appendId(Date.now()) };
    const [first, second] = await Promise.all([engine.append(path, [{}], fields), engine.append(path, [{}], fields)]);
    expect(first).toEqual(second);
    expect(await logOffsets()).toEqual([1, 2]);
  });
});

describe("the core state", () => {
  it("[iterate-25] is folded anew from the log where its rows are gone, and the next append takes a fresh offset", async () => {
    const row = (name: string) => ({ type: itx.subscriptionConfigured.type, payload: { name, target: ["itx", "a"] } });
    await engine.append(path, [row("a"), {}, row("b")]);
    await engine.append(path, [{ type: itx.subscriptionConfigured.type, payload: { name: "a", target: null } }]);
    const { contextId, core } = engine.cache.peek(address(path))!;
    await engine.pool.query("delete from core_state where context_id = $1", [contextId]);
    const other = startEngine({ url: database.url });
    const [head] = await other.cache.load([address(path)]);
    expect(head!.core).toEqual(core);
    expect(Object.keys(head!.core.subscriptions)).toEqual(["b"]);
    expect(offsets(await other.append(path, [row("c")]))).toEqual([6]);
    await other.close();
    const { rows } = await engine.pool.query<{ concern: string; as_of: string }>(
      "select concern, as_of from core_state where context_id = $1 order by 1",
      [contextId],
    );
    expect(rows).toEqual([
      { concern: "identity", as_of: "6" },
      { concern: "subscriptions", as_of: "6" },
    ]);
  });

  it("is written with the commit that changes it and not otherwise", async () => {
    await grow(2);
    const rows = async () =>
      (
        await engine.pool.query("select concern, as_of::int from core_state where context_id = $1 order by 1", [
          engine.cache.peek(address(path))!.contextId,
        ])
      ).rows;
    expect(await rows()).toEqual([{ concern: "identity", as_of: 2 }]);
    await engine.append(path, [{}]);
    expect(await rows()).toEqual([{ concern: "identity", as_of: 2 }]);
    await engine.append(path, [{ type: itx.paused.type, payload: {} }]);
    expect(await rows()).toEqual([
      { concern: "identity", as_of: 2 },
      { concern: "pause", as_of: 4 },
    ]);
    expect(engine.cache.peek(address(path))).toMatchObject({ commitNo: 3, lastControl: 3 });
  });

  it.each([
    ["an unknown field", { name: "a", target: null, extra: 1 }],
    ["a target that is no expression", { name: "a", target: "a.b" }],
    ["a name that would meet a prototype", { name: "constructor", target: null }],
    ["no payload", undefined],
  ])("refuses %s at the door", async (_, payload) => {
    expect((await refusal(engine.append(path, [{ type: itx.subscriptionConfigured.type, payload }]))).code).toBe("INVALID_INPUT");
  });

  it("skips and counts a stored event that its type no longer takes", async () => {
    await grow(2);
    await engine.append(path, [{ type: itx.paused.type, payload: { reason: "kept" } }]);
    const { contextId } = engine.cache.peek(address(path))!;
    await engine.pool.query(`update event set payload = '{"reason":7}' where context_id = $1 and is_control and "offset" = 3`, [
      contextId,
    ]);
    await engine.pool.query("delete from core_state where context_id = $1", [contextId]);
    const other = startEngine({ url: database.url });
    const [head] = await other.cache.load([address(path)]);
    expect(head!.core).toMatchObject({ pause: null, identity: { path } });
    expect(other.cache.malformedEvents).toBe(1);
    await other.close();
  });

  it("takes a generation of the published code that is the same or newer, judged by the database", async () => {
    const publish = (generation: number) => ({
      type: itx.rewriteRuleConfigured.type,
      payload: {
        match: "itx.config",
        target: [
          "itx",
          "builtins",
          "workers",
          [
            "get",
            { source: { repo: "/repos/config", commit: "c" }, digest: `d${generation}`, generation, modules: [], mainModule: null },
          ],
        ],
      },
    });
    await engine.append(path, [publish(4)]);
    const other = startEngine({ url: database.url });
    await other.append(path, [publish(7)]);
    await other.close();
    expect(await refusal(engine.append(path, [{}, publish(6)]))).toMatchObject({
      code: "OFFSET_CONFLICT",
      data: { expected: 7, actual: 6 },
    });
    await engine.append(path, [publish(7), publish(8)]);
    expect(engine.cache.peek(address(path))!.core.config).toMatchObject({ generation: 8, digest: "d8", commitOid: "c" });
  });

  it("takes 1,000 subscriptions of a context and not one more", async () => {
    const rows = Array.from({ length: 999 }, (_, index) => ({
      type: itx.subscriptionConfigured.type,
      payload: { name: `s${index}`, target: ["itx", "a"] },
    }));
    await engine.append(path, rows);
    const row = (name: string) => ({ type: itx.subscriptionConfigured.type, payload: { name, target: ["itx", "a"] } });
    await engine.append(path, [row("last")]);
    expect((await refusal(engine.append(path, [row("more")]))).code).toBe("INVALID_INPUT");
    await engine.append(path, [row("last")]);
  });
});

describe("the cost of an append", () => {
  it("is one statement when its context is in memory, three when it is born, two when it is loaded", async () => {
    await engine.append(`${path}/other`, [{}]);
    expect(await statements(() => engine.append(path, [{}]))).toEqual({ load_heads: 1, make_contexts: 1, commit_core: 1 });
    expect(await statements(() => engine.append(path, [{}]))).toEqual({ commit: 1 });
    expect(await statements(() => engine.append(path, [{ payload: 1, idempotencyKey: "K" }]))).toEqual({ commit_keys: 1 });
    const other = startEngine({ url: database.url });
    await other.append(`${path}/other`, [{}]);
    expect(await statements(() => other.append(path, [{}]))).toEqual({ load_heads: 1, commit: 1 });
    await other.close();
  });

  it("of 100 appends that wait together is one statement for each lane they fall into", async () => {
    const paths = Array.from({ length: 25 }, (_, index) => `${path}/${index}`);
    await Promise.all(paths.map((path) => engine.append(path, [{}])));
    const lanes = new Set(paths.map((path) => engine.cache.peek(address(path))!.partition % 2));
    const all = [0, 1, 2, 3].flatMap(() => paths);
    expect(await statements(() => Promise.all(all.map((path) => engine.append(path, [{}]))))).toEqual({ commit: lanes.size });
    const { rows } = await engine.pool.query<{ count: string }>(
      "select count(*) from commit join context using (context_id) where path like $1 and commit_no = 2 and last_offset = 6",
      [`${path}/%`],
    );
    expect(rows).toEqual([{ count: "25" }]);
  });

  it("of a refusal that rests on memory is three reads", async () => {
    await grow(2);
    const sent = await statements(() => refusal(engine.append(path, [{ payload: 1, idempotencyKey: "K", offset: 9 }])));
    expect(sent).toEqual({ last_commits: 1, committed_appends: 1, taken_keys: 1 });
  });
});

it("a service writes with the trace it was called in", async () => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await engine.append(path, [{}], { traceparent, writer: service });
  await engine.append(path, [{}], { traceparent: "nonsense", writer: service });
  const { rows } = await engine.pool.query(
    'select e.traceparent as event, c.traceparent as commit from event e join commit c on c.context_id = e.context_id and e."offset" between c.first_offset and c.last_offset where e.context_id = $1 order by e."offset"',
    [engine.cache.peek(address(path))!.contextId],
  );
  expect(rows).toEqual([
    { event: null, commit: traceparent },
    { event: traceparent, commit: traceparent },
    { event: null, commit: null },
  ]);
});
