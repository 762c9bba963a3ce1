/** Queue, writer and partitions on a real database, by a clock of the test's own. */
import { fileURLToPath } from "node:url";
import { createLog } from "@iterate-platform/service/log";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool, type Queryable } from "@iterate-platform/service/postgres";
import { eventually, useTestDatabase } from "@iterate-platform/testing";
import { codedError } from "iterate/lib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { listLogs, maxScanned, settleMs } from "../query/list-logs.js";
import { linkedToTrace } from "../query/trace.sql.js";
import { BatchQueue, maxBatchRows } from "./batch-queue.js";
import { Column } from "./column.js";
import { dayName, dayNamed, dayOf, dayStartMs } from "./day.js";
import { LogBatch, type LogRow } from "./log-batch.js";
import { Partitions } from "./partitions.js";
import { listPartitions } from "./partitions.sql.js";
import { SpanBatch, type SpanRow } from "./span-batch.js";
import { maxWaitMs, retryLadderMs, Writer, type WriterOptions } from "./writer.js";

const database = useTestDatabase();
let pool: Pool;
beforeAll(async () => {
  await migrate({ url: database.url, dir: fileURLToPath(new URL("../../migrations", import.meta.url)) });
  pool = createPool({ url: database.url, applicationName: "test", max: 4 });
});
afterAll(() => pool?.end());

const noon = Date.UTC(2026, 0, 15, 12);
let now = noon;
beforeEach(() => {
  now = noon;
});
const nowMs = (): number => now;
const partitions = (retentionDays = 2): Partitions => new Partitions({ pool, retentionDays, nowMs });

let ids = 0;
const spanRow = (row: Partial<SpanRow> = {}): SpanRow => ({
  traceId: Buffer.alloc(16, 1),
  spanId: BigInt(++ids),
  parentSpanId: 0n,
  startUs: BigInt(now) * 1_000n,
  durationUs: 5n,
  kind: 1,
  isError: false,
  owner: "prj_a",
  service: "s",
  name: "n",
  statusMessage: "",
  attributes: "{}",
  links: [],
  ...row,
});
const logRow = (row: Partial<LogRow> = {}): LogRow => ({
  owner: "prj_a",
  atUs: BigInt(now) * 1_000n,
  export: 1n,
  ordinal: ++ids,
  severity: "info",
  path: "/",
  service: "s",
  span: null,
  body: "b",
  attributes: "{}",
  ...row,
});

describe("columns", () => {
  test("hold every value of their type, and forget what is rewound", async () => {
    const all = {
      int8: new Column("int8"),
      int4: new Column("int4"),
      int2: new Column("int2"),
      bool: new Column("bool"),
      text: new Column("text"),
      uuid: new Column("uuid"),
    };
    const add = (n: number): void => {
      all.int8.int8(n === 0 ? -(2n ** 63n) : 2n ** 63n - 1n);
      all.int4.int4(n === 0 ? -(2 ** 31) : 2 ** 31 - 1);
      all.int2.int2(n);
      all.bool.bool(n === 1);
      all.text.text(n === 0 ? "" : "ü🦜".repeat(5_000));
      if (n === 0) all.uuid.null();
      else all.uuid.uuid(Buffer.alloc(16, 255));
    };
    add(0);
    add(1);
    const marks = Object.values(all).map((column) => column.mark());
    add(1);
    Object.values(all).forEach((column, index) => column.rewind(marks[index]!));
    const { rows } = await pool.query(
      "select * from unnest($1::int8[], $2::int4[], $3::int2[], $4::bool[], $5::text[], $6::uuid[]) as t(a, b, c, d, e, f)",
      Object.values(all).map((column) => column.parameter()),
    );
    expect(rows).toEqual([
      { a: "-9223372036854775808", b: -2147483648, c: 0, d: false, e: "", f: null },
      { a: "9223372036854775807", b: 2147483647, c: 1, d: true, e: "ü🦜".repeat(5_000), f: "ffffffff-ffff-ffff-ffff-ffffffffffff" },
    ]);
  });

  test("that are empty are empty arrays", async () => {
    expect((await pool.query("select $1::text[] as e", [new Column("text").parameter()])).rows).toEqual([{ e: [] }]);
  });
});

describe("the queue", () => {
  const queue = (maxBytes: number): BatchQueue<SpanBatch> =>
    new BatchQueue({ create: () => new SpanBatch(), maxBytes, nowMs, onRows: () => {} });

  test("has room up to its bound, and counts what is being stored", () => {
    const one = queue(100_000);
    expect(() => one.checkRoom(100_001)).toThrow(expect.objectContaining({ code: "OVERLOADED", retryAfterMs: 1_000 }) as Error);
    one.checkRoom(100_000);
    one.add((batch) => batch.add(spanRow({ attributes: "x".repeat(50_000) })));
    const { bytes } = one;
    one.checkRoom(100_000 - bytes);
    expect(() => one.checkRoom(100_001 - bytes)).toThrow(/wait for the database/);
    one.take();
    expect([one.bytes, one.rows, one.waitingSinceMs]).toEqual([bytes, 1, null]);
    one.settle();
    expect([one.bytes, one.rows]).toEqual([0, 0]);
  });

  test("takes an export as a whole or not at all", () => {
    const one = queue(1_000_000);
    one.add((batch) => batch.add(spanRow()));
    const { bytes } = one;
    const fail = (batch: SpanBatch): void => {
      batch.add(spanRow({ attributes: "y".repeat(10_000), links: [{ traceId: Buffer.alloc(16, 2), spanId: 1n }] }));
      throw new Error("it broke off");
    };
    expect(() => one.add(fail)).toThrow("it broke off");
    expect([one.bytes, one.rows]).toEqual([bytes, 1]);
    const other = queue(1_000_000);
    expect(() => other.add(fail)).toThrow("it broke off");
    expect([other.bytes, other.waitingSinceMs]).toEqual([0, null]);
  });

  test.for([
    [maxBatchRows - 1, false],
    [maxBatchRows, true],
  ] as const)("of %i rows a batch is sealed: %o", ([rows, isSealed]) => {
    const one = queue(100_000_000);
    for (let n = 0; n < rows; n += 1) one.add((batch) => batch.add(spanRow()));
    expect(one.hasSealed).toBe(isSealed);
  });
});

describe("the writer", () => {
  interface Made {
    readonly writer: Writer;
    readonly spans: BatchQueue<SpanBatch>;
    readonly logs: BatchQueue<LogBatch>;
    readonly counts: Record<string, number>;
    readonly pauses: number[];
    readonly lines: string[];
  }
  const make = (overrides: Partial<WriterOptions> = {}): Made => {
    const counts: Record<string, number> = { stored: 0, dropped: 0 };
    const [pauses, lines]: [number[], string[]] = [[], []];
    const shared = { maxBytes: 10_000_000, nowMs, onRows: () => writer.wake() };
    const spans = new BatchQueue({ create: () => new SpanBatch(), ...shared });
    const logs = new BatchQueue({ create: () => new LogBatch(), ...shared });
    const writer = new Writer({
      db: pool,
      lanes: [
        { signal: "traces", queue: spans },
        { signal: "logs", queue: logs },
      ],
      partitions: partitions(),
      log: createLog("telemetry", { write: (line) => void lines.push(line) }),
      nowMs,
      pause: async (ms, signal) => {
        // An idle loop waits for rows; every other wait passes at once.
        if (ms > retryLadderMs.at(-1)!)
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
        else pauses.push(ms);
      },
      onStored: (_signal, rows) => (counts["stored"]! += rows),
      onDropped: (_signal, rows) => (counts["dropped"]! += rows),
      ...overrides,
    });
    return { writer, spans, logs, counts, pauses, lines };
  };

  test("stores spans, links and logs of both queues, and ends when all is stored", async () => {
    const { writer, spans, logs, counts } = make();
    writer.start();
    const linked = Buffer.alloc(16, 9);
    spans.add((batch) => batch.add(spanRow({ links: [{ traceId: linked, spanId: 77n }] })));
    logs.add((batch) => batch.add(logRow()));
    await writer.stop(10_000);
    expect(counts).toEqual({ stored: 2, dropped: 0 });
    expect(await linkedToTrace(pool, linked.toString("hex"), "prj_a", 10)).toEqual([
      { traceId: "01010101-0101-0101-0101-010101010101", spanId: String(ids - 1) },
    ]);
  });

  test("who is linked to a trace is answered by the index", async () => {
    const { rows } = await pool.query<{ "QUERY PLAN": string }>({
      text: "explain select trace_id from span_link where linked_trace_id = '09090909-0909-0909-0909-090909090909' and linked_span_id = 77",
    });
    expect(rows.map((row) => row["QUERY PLAN"]).join("\n")).toMatch(/Index (Only )?(Scan|Cond)/);
  });

  test("tries again along the ladder while the database is away", async () => {
    let failures = retryLadderMs.length + 2;
    const db: Pick<Queryable, "query"> = {
      query: (statement: never) => {
        if (failures > 0) {
          failures -= 1;
          return Promise.reject(codedError("UNAVAILABLE", "away"));
        }
        return pool.query(statement);
      },
    };
    const { writer, spans, counts, pauses } = make({ db });
    spans.add((batch) => batch.add(spanRow()));
    writer.start();
    await eventually(() => counts["stored"] === 1, { timeoutMs: 10_000 });
    await writer.stop(1_000);
    const last = retryLadderMs.at(-1)!;
    expect(pauses.slice(1)).toEqual([...retryLadderMs, last, last]);
    expect(counts["dropped"]).toBe(0);
  });

  test.for([
    [maxWaitMs, 0],
    [maxWaitMs + 1, 1],
  ] as const)("what waited %i ms at a failure is dropped: %i", async ([waitedMs, dropped]) => {
    let isAway = true;
    const db: Pick<Queryable, "query"> = {
      query: (statement: never) => {
        if (!isAway) return pool.query(statement);
        isAway = false;
        now += waitedMs;
        return Promise.reject(codedError("UNAVAILABLE", "away"));
      },
    };
    const { writer, spans, counts } = make({ db });
    spans.add((batch) => batch.add(spanRow()));
    writer.start();
    await writer.stop(10_000);
    expect(counts).toEqual({ stored: 1 - dropped, dropped });
  });

  test("drops what the database refuses for its own sake, counted and logged, and goes on", async () => {
    const { writer, spans, logs, counts, lines } = make();
    // The receiver lets no NUL through; this one came past it.
    logs.add((batch) => batch.add(logRow({ body: "a\0b" })));
    spans.add((batch) => batch.add(spanRow()));
    writer.start();
    await eventually(() => counts["stored"]! + counts["dropped"]! === 2, { timeoutMs: 10_000 });
    await writer.stop(1_000);
    expect(counts).toEqual({ stored: 1, dropped: 1 });
    expect(lines.some((line) => line.includes("telemetry is dropped") && line.includes("refuses"))).toBe(true);
  });

  test("makes the day again when its partition was dropped meanwhile", async () => {
    const own = partitions();
    await own.ensure();
    await pool.query(`drop table span_${dayName(dayOf(noon))}`);
    const { writer, spans, counts } = make({ partitions: own });
    spans.add((batch) => batch.add(spanRow()));
    writer.start();
    await writer.stop(10_000);
    expect(counts).toEqual({ stored: 1, dropped: 0 });
  });

  test("ends within its bound when the database stays away, and counts what is lost", async () => {
    const { writer, spans, counts } = make({ db: { query: () => new Promise(() => {}) } });
    spans.add((batch) => batch.add(spanRow()));
    spans.add((batch) => batch.add(spanRow()));
    writer.start();
    await writer.stop(50);
    expect(counts).toEqual({ stored: 0, dropped: 2 });
  });
});

describe("partitions", () => {
  const days = async (): Promise<string[]> =>
    (await listPartitions(pool)).filter(({ table }) => table === "span").map(({ day }) => dayName(day));

  test("names of days are those of the calendar", () => {
    expect(dayName(dayOf(noon))).toBe("20260115");
    expect(dayNamed("20260115")).toBe(dayOf(noon));
    expect([dayNamed("20260231"), dayNamed("2026011"), dayNamed("default")]).toEqual([null, null, null]);
    expect(dayOf(dayStartMs(20_000))).toBe(20_000);
    expect(dayOf(dayStartMs(20_000) - 1)).toBe(19_999);
  });

  test("are made ahead by ten processes at once", async () => {
    await Promise.all(Array.from({ length: 10 }, () => partitions().ensure()));
    expect(await days()).toEqual(["20260113", "20260114", "20260115", "20260116", "20260117"]);
  });

  test("are dropped once their day is older than is kept, and not before", async () => {
    const kept = partitions(3);
    await kept.ensure();
    expect(await kept.dropExpired()).toBe(0);
    now = Date.UTC(2026, 0, 16, 23, 59, 59, 999);
    await kept.ensure();
    expect(await kept.dropExpired()).toBe(0);
    expect(kept.oldestAgeMs).toBe(now - Date.UTC(2026, 0, 13));
    now += 1;
    await kept.ensure();
    expect(await kept.dropExpired()).toBe(3);
    expect((await days())[0]).toBe("20260114");
    expect(await days()).toContain("20260119");
    expect(kept.oldestAgeMs).toBe(now - Date.UTC(2026, 0, 14));
  });
});

describe("pages of logs", () => {
  const owner = "prj_pages";
  const ask = { owner, path: "", sinceUs: 0n, pageToken: "", pageSize: 0 };
  const store = async (rows: readonly LogRow[]): Promise<void> => {
    await partitions(365).ensure();
    const batch = new LogBatch();
    for (const row of rows) batch.add(row);
    await pool.query(batch.statement());
  };
  const us = (ms: number): bigint => BigInt(noon + ms) * 1_000n;

  test("follow each other without gap or repetition, also among records of one moment", async () => {
    await store(
      Array.from({ length: 25 }, (_, n) =>
        logRow({ owner, atUs: us(Math.floor(n / 10)), export: BigInt(n % 3) - 1n, body: `r${n}` }),
      ),
    );
    now = noon + 60_000;
    const seen: string[] = [];
    let pageToken = "";
    for (;;) {
      const page = await listLogs(pool, { ...ask, pageSize: 4, pageToken }, now);
      seen.push(...page.records.map(({ body }) => body));
      pageToken = page.nextPageToken;
      if (page.atEnd) break;
    }
    expect(seen).toHaveLength(25);
    expect(new Set(seen).size).toBe(25);
    // A follower goes on where it is.
    await store([logRow({ owner, atUs: us(20_000), body: "later" })]);
    expect((await listLogs(pool, { ...ask, pageToken }, now)).records.map(({ body }) => body)).toEqual(["later"]);
  });

  test.for([
    [settleMs, 0],
    [settleMs + 1, 1],
  ] as const)("list a record that is %i ms old: %i", async ([ageMs, count]) => {
    const own = `prj_age_${ageMs}`;
    await store([logRow({ owner: own, atUs: us(0) })]);
    expect((await listLogs(pool, { ...ask, owner: own }, noon + ageMs)).records).toHaveLength(count);
  });

  test("begin at the time asked for", async () => {
    const own = "prj_since";
    await store([
      logRow({ owner: own, atUs: us(1), body: "early" }),
      logRow({ owner: own, atUs: us(2), body: "at" }),
      logRow({ owner: own, atUs: us(3), body: "after" }),
    ]);
    expect((await listLogs(pool, { ...ask, owner: own, sinceUs: us(2) }, noon + 60_000)).records.map(({ body }) => body)).toEqual([
      "at",
      "after",
    ]);
  });

  test.for<[string, string[]]>([
    ["", ["nowhere", "root", "a", "a below", "ab"]],
    ["/", ["root", "a", "a below", "ab"]],
    ["/a", ["a", "a below"]],
    ["/a/b", ["a below"]],
    ["/x", []],
  ])("of the context %j hold it and what is below", async ([path, expected]) => {
    const own = `prj_path_${path.length}_${expected.length}`;
    const at = (n: number) => ({ owner: own, atUs: us(n) });
    await store([
      logRow({ ...at(0), path: "", body: "nowhere" }),
      logRow({ ...at(1), path: "/", body: "root" }),
      logRow({ ...at(2), path: "/a", body: "a" }),
      logRow({ ...at(3), path: "/a/b", body: "a below" }),
      logRow({ ...at(4), path: "/ab", body: "ab" }),
    ]);
    expect((await listLogs(pool, { ...ask, owner: own, path }, noon + 60_000)).records.map(({ body }) => body)).toEqual(expected);
  });

  test("that look for a rare context end after a bound and go on from there", async () => {
    const own = "prj_rare";
    const common = Array.from({ length: maxScanned + 5 }, (_, n) => logRow({ owner: own, atUs: us(n), path: "/common" }));
    await store([...common, logRow({ owner: own, atUs: us(maxScanned + 5), path: "/rare", body: "found" })]);
    const first = await listLogs(pool, { ...ask, owner: own, path: "/rare" }, noon + 3_600_000);
    expect(first).toMatchObject({ records: [], atEnd: false });
    const second = await listLogs(pool, { ...ask, owner: own, path: "/rare", pageToken: first.nextPageToken }, noon + 3_600_000);
    expect(second).toMatchObject({ records: [{ body: "found" }], atEnd: true });
  });

  test.for<[string, object]>([
    ["page_size", { pageSize: 1_001 }],
    ["page_size", { pageSize: -1 }],
    ["page_token", { pageToken: "x" }],
    ["since_us", { sinceUs: -1n }],
    ["owner", { owner: "o".repeat(65) }],
  ])("refuse a bad %s: %o", async ([field, bad]) => {
    await expect(listLogs(pool, { ...ask, ...bad }, now)).rejects.toMatchObject({ code: "INVALID_INPUT", data: { field } });
  });

  test("take a page size at its limit", async () => {
    expect((await listLogs(pool, { ...ask, pageSize: 1_000 }, noon + 60_000)).records.length).toBeGreaterThan(0);
  });
});
