import { createHash } from "node:crypto";
import { partitionOf, uuidv7 } from "@iterate-platform/service/ids";
import { startPostgres, useTestDatabase } from "@iterate-platform/testing";
import { itx, project } from "iterate/events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { migrateLog, owner, startEngine, type EventFields } from "../log/engine.fixture.js";
import { listCommits } from "../publish/feed.js";
import { PostgresArchiveStore } from "../log/postgres/postgres-archive-store.js";
import { PostgresLogStore } from "../log/postgres/postgres-log-store.js";
import { PooledSession, type Statement } from "../log/postgres/sql-session.js";
import { SchedulePod } from "../schedules/schedules.fixture.js";
import { ArchivePod, inPieces, newImport } from "./archive.fixture.js";

const database = useTestDatabase();
let source: ArchivePod;
let archive: Buffer;
/** The same without the largest event there can be. */
let smaller: Buffer;
const appendId = uuidv7();
/** Bodies that a careless copy changes. */
const hostile = [
  '{"nul":"\\u0000","lone":"\\ud800","pair":"\\ud83d\\ude00"}',
  '{ "spaced" :\n\t1.0e+2 ,\r\n "big": 123456789012345678901234567890 }',
  '{"b":1,"a":{"__proto__":{"x":1}},"e":"\\/","u":"\u2028\u00e9\u{1f600}"}',
  '"text"',
  "null",
  "[]",
];

beforeAll(async () => {
  await migrateLog(database.url);
  source = new ArchivePod(database.url);
  for (const text of hostile) await source.engine.append("/hostile", [{ payload: Buffer.from(text), metadata: Buffer.from(text) }]);
  await source.engine.append("/orders", [{ payload: { n: 1 }, idempotencyKey: "K" }, { payload: { n: 2 } }], { appendId });
  await source.subscribe("/orders", "triage", 0);
  await source.fill("/short", 8);
  await source.keepFrom("/short", { offset: 6 });
  await source.sweep();
  smaller = await source.export();
  await source.engine.append("/large", [{ payload: "x".repeat(8_388_600) }]);
  archive = await source.export();
}, 60_000);
afterAll(() => source.close());

/** Another deployment, empty, for the length of `work`. */
async function elsewhere(work: (target: ArchivePod, url: string) => Promise<void>): Promise<void> {
  const other = await (await startPostgres()).createDatabase();
  await migrateLog(other.url);
  const target = new ArchivePod(other.url);
  try {
    await work(target, other.url);
  } finally {
    await target.close();
    await other.drop();
  }
}

/** The archive of a project whose root holds these events. */
async function sourceOf(events: readonly EventFields[]): Promise<Buffer> {
  let exported: Buffer = Buffer.alloc(0);
  await elsewhere(async (other) => {
    await other.engine.append("/", events);
    exported = await other.export();
  });
  return exported;
}

const lines = (of: Buffer): string[] => of.toString().split("\n").slice(0, -1);
const joined = (of: readonly string[]): Buffer => Buffer.from(of.map((line) => `${line}\n`).join(""));

describe("an archive", () => {
  test("holds every event as it is stored, and imports as it was", () =>
    elsewhere(async (target) => {
      expect(await target.import(newImport(), archive)).toEqual({ contexts: 4, events: expect.any(Number) as number });
      const stored = (await source.everything()).filter((row) => (JSON.parse(row) as unknown[])[4] !== 0);
      const imported = await target.everything();
      expect(imported.filter((row) => !row.includes(itx.subscriptionDeliveryResumed.type))).toEqual(stored);
      for (const path of ["/hostile", "/orders", "/large", "/short"]) {
        const [there, here] = [await source.head(path), await target.head(path)];
        expect(here.core).toMatchObject({ ...there.core, subscriptions: expect.anything() as object });
      }
      const again = lines(await target.export());
      expect(again.filter((line) => line.startsWith('{"kind":"event"') && !line.includes("delivery-resumed"))).toEqual(
        lines(archive).filter((line) => line.startsWith('{"kind":"event"')),
      );
    }));

  test("goes on where it ended: keys and append ids are known, what was given up stays so, subscriptions begin behind it", () =>
    elsewhere(async (target) => {
      await target.import(newImport(), archive);
      const [key] = await target.engine.append("/orders", [{ payload: { n: 1 }, idempotencyKey: "K" }]);
      expect(key).toMatchObject({ offset: 2, existing: true });
      const repeated = await target.engine.append("/orders", [{ payload: { n: 1 }, idempotencyKey: "K" }, { payload: { n: 2 } }], {
        appendId,
      });
      expect(repeated.map(({ offset }) => offset)).toEqual([2, 3]);
      await expect(target.read("/short", 4)).rejects.toMatchObject({ code: "OFFSET_TRUNCATED", data: { firstOffset: 6 } });
      expect((await target.read("/short", 0)).events[0]!.offset).toBe(6n);
      const { reservedThrough } = await source.head("/orders");
      expect((await target.head("/orders")).core.subscriptions["triage"]).toMatchObject({
        resumedAfterOffset: reservedThrough,
        resumedAtOffset: reservedThrough + 1,
      });
      expect((await target.engine.append("/orders", [{}]))[0]!.offset).toBe(reservedThrough + 2);
      // Its retention is carried out here as well.
      await target.keepFrom("/short", { offset: 9 });
      await target.sweep();
      expect((await target.head("/short")).core.retention?.firstOffset).toBe(9);
    }));

  test("fires here what it had scheduled, once it is open", async () => {
    const events = [{ type: "example.com/due" }];
    const scheduled = await sourceOf([{ type: itx.scheduleSet.type, payload: { key: "k", when: { afterMs: 0 }, events } }]);
    await elsewhere(async (target, url) => {
      const pod = new SchedulePod(url);
      const id = newImport();
      await target.stage(id, inPieces(scheduled));
      await pod.firer.round(0);
      expect(pod.firer.counts.due).toBe(0);
      await target.open(id);
      const fired = await pod.untilFired("/", 1);
      expect(fired.slice(-2).map(({ type }) => type)).toEqual(["example.com/due", itx.scheduleFired.type]);
      await pod.close();
    });
  });

  test("of one context holds that context alone", () =>
    elsewhere(async (target) => {
      const one = lines(await source.export("/orders"));
      expect(one.map((line) => (JSON.parse(line) as { kind: string }).kind)).toEqual([
        "iterate-archive",
        "context",
        ...Array.from({ length: 4 }, () => "event"),
        "context-end",
        "end",
      ]);
      await target.import(newImport(), joined(one));
      expect((await target.head("/orders")).lastOffset).toBeGreaterThan(4);
      await expect(source.export("/nowhere")).rejects.toMatchObject({ code: "NOT_FOUND" });
    }));

  test("of 100,000 events is made as fast as it is taken, one page ahead at most", { timeout: 120_000 }, () =>
    elsewhere(async (target, url) => {
      const many = startEngine({ url });
      for (let n = 0; n < 100; n += 1)
        await many.append(
          "/many",
          Array.from({ length: 1_000 }, (_, at) => ({ payload: { n: at, text: "y".repeat(200) } })),
        );
      await many.close();
      let largest = 0;
      let last = { events: 0, bytes: 0 };
      for await (const { data, events } of target.exported()) {
        expect(target.eventsRead).toBeLessThanOrEqual(events + 1_000);
        largest = Math.max(largest, data.length);
        last = { events, bytes: last.bytes + data.length };
      }
      expect(last.events).toBe(100_001);
      expect(last.bytes).toBeGreaterThan(40_000_000);
      expect(largest).toBeLessThan(300_000);
    }),
  );
});

describe("what is not exactly an archive of the project", () => {
  const empty = useTestDatabase();
  let target: ArchivePod;
  beforeAll(async () => {
    await migrateLog(empty.url);
    target = new ArchivePod(empty.url);
  });
  afterAll(() => target.close());
  const edited = (change: (all: string[]) => void): Buffer => {
    const all = lines(smaller);
    change(all);
    return joined(all);
  };
  const at = (all: readonly string[], kind: string): number => all.findIndex((line) => line.startsWith(`{"kind":"${kind}"`));
  const field = (all: string[], kind: string, name: string, value: unknown): void => {
    const line = at(all, kind);
    all[line] = JSON.stringify({ ...(JSON.parse(all[line]!) as object), [name]: value });
  };

  test.for<[string, string, () => Buffer]>([
    ["nothing", "INVALID_INPUT", () => Buffer.alloc(0)],
    ["some other file", "INVALID_INPUT", () => Buffer.from("PK\u0003\u0004")],
    ["one of a newer release", "UPGRADE_REQUIRED", () => edited((all) => field(all, "iterate-archive", "version", 2))],
    [
      "one of another project",
      "INVALID_INPUT",
      () => edited((all) => field(all, "iterate-archive", "owner", `prj_${"1".repeat(26)}`)),
    ],
    ["one cut after a line", "INVALID_INPUT", () => edited((all) => void all.splice(-3))],
    ["one cut in a line", "INVALID_INPUT", () => smaller.subarray(0, smaller.length - 20)],
    ["one without its last line", "INVALID_INPUT", () => edited((all) => void all.pop())],
    ["one that goes on after its end", "INVALID_INPUT", () => edited((all) => void all.push(all[1]!))],
    ["a body that was changed", "INVALID_INPUT", () => edited((all) => field(all, "event", "payload", '{"owner":"x"}'))],
    ["a line that is missing", "INVALID_INPUT", () => edited((all) => void all.splice(at(all, "event"), 1))],
    ["a line that is twice", "INVALID_INPUT", () => edited((all) => void all.splice(at(all, "event"), 0, all[at(all, "event")]!))],
    ["lines in another order", "INVALID_INPUT", () => edited((all) => void all.splice(2, 2, all[3]!, all[2]!))],
    ["a context that is missing", "INVALID_INPUT", () => edited((all) => void all.splice(1, at(all, "context-end")))],
    ["a checksum of a context", "INVALID_INPUT", () => edited((all) => field(all, "context-end", "sha256", "0".repeat(64)))],
    ["the checksum of all", "INVALID_INPUT", () => edited((all) => field(all, "end", "sha256", "0".repeat(64)))],
    ["a count", "INVALID_INPUT", () => edited((all) => field(all, "end", "events", 3))],
    ["an array", "INVALID_INPUT", () => edited((all) => void (all[3] = "[]"))],
  ])("is refused: %s; and leaves nothing", async ([, code, make]) => {
    const before = await target.size();
    const id = newImport();
    await expect(target.stage(id, inPieces(make(), 100_000))).rejects.toMatchObject({ code });
    await target.remove(id);
    expect(await target.size()).toEqual(before);
    expect(await target.head("/orders")).toBeUndefined();
  });

  /** One whose checksums are right, as of who means harm. */
  const sealed = (change: (all: string[]) => void): Buffer => {
    const all = lines(smaller);
    change(all);
    const sum = (of: readonly string[]): string => createHash("sha256").update(joined(of)).digest("hex");
    let begun = 0;
    for (const [line, text] of all.entries()) {
      if (text.startsWith('{"kind":"context",')) begun = line;
      const range = text.startsWith('{"kind":"context-end"') ? all.slice(begun, line) : undefined;
      const upTo = text.startsWith('{"kind":"end"') ? all.slice(0, line) : range;
      if (upTo !== undefined) all[line] = JSON.stringify({ ...(JSON.parse(text) as object), sha256: sum(upTo) });
    }
    return joined(all);
  };
  const fieldOf = (all: readonly string[], line: number, name: string) => (JSON.parse(all[line]!) as Record<string, unknown>)[name];
  const twice = (name: string, value: (all: readonly string[]) => unknown) => (all: string[]) => {
    for (const line of [3, 4]) all[line] = JSON.stringify({ ...(JSON.parse(all[line]!) as object), [name]: value(all) });
  };

  test.for<[string, string, RegExp, (all: string[]) => void]>([
    ["a path", "INVALID_INPUT", /none of a context/, (all) => field(all, "context", "path", "/../x")],
    ["an offset that is none", "INVALID_INPUT", /no whole number offset/, (all) => field(all, "event", "offset", 1.5)],
    [
      "a type the platform has not",
      "INVALID_INPUT",
      /is refused/,
      (all) => field(all, "event", "type", "events.iterate.com/itx/nonsense"),
    ],
    ["a newer format of an event", "UPGRADE_REQUIRED", /format 99/, (all) => field(all, "event", "format", 99)],
    ["a body that is no JSON", "INVALID_INPUT", /JSON/, (all) => field(all, "event", "payload", "{")],
    ["a body that is no UTF-8", "INVALID_INPUT", /no UTF-8/, (all) => field(all, "event", "payload", '"\ud800"')],
    ["a body that repeats a name", "INVALID_INPUT", /"a"/, (all) => field(all, "event", "payload", '{"a":1,"a":2}')],
    ["a source that is none", "INVALID_INPUT", /source that cannot be read/, (all) => field(all, "event", "source", "{}")],
    ["a key with a NUL", "INVALID_INPUT", /a key, a source or a trace/, (all) => field(all, "event", "key", "a\u0000")],
    ["an append id that is none", "INVALID_INPUT", /append_id|UUID/, (all) => field(all, "event", "append", "x")],
    ["a key of two events", "INVALID_INPUT", /another one has/, twice("key", () => "K")],
    ["an append id of two events", "INVALID_INPUT", /another one has/, twice("append", (all) => fieldOf(all, 3, "append"))],
    ["a first offset that no event says", "INVALID_INPUT", /begins at/, (all) => field(all, "context", "firstOffset", 2)],
  ])("is refused, however well it is sealed: %s; and leaves nothing", async ([, code, message, change]) => {
    const before = await target.size();
    const id = newImport();
    const staged = target.stage(id, inPieces(sealed(change), 100_000));
    await expect(staged).rejects.toMatchObject({ code, message: expect.stringMatching(message) as string });
    await target.remove(id);
    expect(await target.size()).toEqual(before);
  });

  test("one that was sealed anew is taken", async () => {
    const id = newImport();
    await target.stage(id, inPieces(sealed((all) => field(all, "iterate-archive", "slug", "another"))));
    await target.remove(id);
  });

  test("a line without end is not held", async () => {
    const endless = async function* (): AsyncGenerator<Buffer> {
      yield Buffer.concat([Buffer.from(lines(smaller)[0]!), Buffer.from("\n")]);
      for (;;) yield Buffer.alloc(1_048_576, "x");
    };
    const id = newImport();
    await expect(target.stage(id, endless())).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });
});

describe("while a project is imported", () => {
  /** Feeds an archive up to half, and the rest when told. */
  function halfway(target: ArchivePod, id: string) {
    const reached = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const data = async function* (): AsyncGenerator<Buffer> {
      const half = smaller.indexOf('{"kind":"context","path":"/orders"');
      yield smaller.subarray(0, half);
      yield Buffer.alloc(0);
      reached.resolve();
      await go.promise;
      yield smaller.subarray(half);
    };
    const staged = target.stage(id, data());
    staged.catch(reached.reject);
    return { reached: reached.promise, go: go.resolve, staged };
  }

  test("nobody sees it, nothing of that name is born, and the feed does not tell of it", () =>
    elsewhere(async (target) => {
      const id = newImport();
      const half = halfway(target, id);
      await half.reached;
      expect(await target.head("/hostile")).toBeUndefined();
      expect((await target.read("/hostile", 0)).events).toEqual([]);
      await expect(target.engine.append("/stranger", [{}])).rejects.toMatchObject({ code: "UNAVAILABLE" });
      const partition = partitionOf(owner, "/hostile");
      const feed = async () => listCommits(new PostgresLogStore(target.pool), partition, "", 100);
      expect((await feed()).commits).toEqual([]);
      half.go();
      await half.staged;
      expect(await target.head("/hostile")).toBeUndefined();
      await target.open(id);
      expect((await target.head("/hostile")).lastOffset).toBe(7);
      expect((await feed()).commits.length).toBeGreaterThan(0);
      expect((await target.engine.append("/stranger", [{}]))[0]!.offset).toBe(2);
    }));

  test("another import of it is refused, and one that failed can be made again with the same end", () =>
    elsewhere(async (target) => {
      const first = newImport();
      const half = halfway(target, first);
      await half.reached;
      await expect(target.stage(newImport(), inPieces(smaller))).rejects.toMatchObject({ code: "ALREADY_EXISTS" });
      // Its process died: somebody removes it, and what it still sends is refused.
      await target.remove(first);
      half.go();
      await expect(half.staged).rejects.toMatchObject({ code: "CANCELLED" });
      await target.remove(first);
      await target.import(newImport(), smaller);
      const again = lines(await target.export());
      expect(again.filter((line) => !line.includes("delivery-resumed") && line.includes('"kind":"event"')).length).toBe(
        lines(smaller).filter((line) => line.includes('"kind":"event"')).length,
      );
    }));

  test("two that open it at once open it, wherever one of them is overtaken by the other", () =>
    elsewhere(async (target) => {
      const session = new PooledSession(target.pool);
      for (let at = 1, isOvertaken = true; isOvertaken; at += 1) {
        const id = newImport();
        await target.stage(id, inPieces(smaller), true);
        isOvertaken = false;
        let statements = 0;
        const query = async <Row extends readonly unknown[]>(statement: Statement, values: readonly unknown[]): Promise<Row[]> => {
          statements += 1;
          if (statements === at) {
            isOvertaken = true;
            await target.open(id);
          }
          return await session.query<Row>(statement, values);
        };
        const overtaken = new PostgresArchiveStore({ query }, new PostgresLogStore(target.pool));
        while (await overtaken.openStep(id, owner));
        await target.remove(id);
        expect((await target.read("/hostile", 0)).events, `overtaken before statement ${at}`).toHaveLength(7);
      }
    }));

  test("it is opened although its root was paused, and the fact that says so lands", () =>
    elsewhere(async (target) => {
      const paused = await sourceOf([{ type: itx.paused.type, payload: {} }]);
      const id = newImport();
      await target.stage(id, inPieces(paused));
      await target.open(id);
      const fact = { type: project.projectImported.type, payload: { slug: "shop", importId: id } };
      await expect(target.engine.append("/", [fact])).resolves.toHaveLength(1);
      await expect(target.engine.append("/", [{}])).rejects.toMatchObject({ code: "STREAM_PAUSED" });
    }));

  test("removing or opening may be cut anywhere and goes on", () =>
    elsewhere(async (target) => {
      const id = newImport();
      await target.stage(id, inPieces(smaller));
      await target.archives.openStep(id, owner);
      await target.archives.openStep(id, owner);
      await target.open(id);
      await target.open(id);
      await target.remove(id);
      await target.remove(id);
      expect((await target.size())["import"]).toBe(0);
      expect((await target.read("/hostile", 0)).events).toHaveLength(7);
    }));
});

describe("a project that exists", () => {
  test("is not touched unless it is to be replaced", () =>
    elsewhere(async (target) => {
      await target.fill("/orders", 3);
      const before = await target.everything();
      const id = newImport();
      await expect(target.stage(id, inPieces(smaller))).rejects.toMatchObject({ code: "ALREADY_EXISTS" });
      await target.remove(id);
      expect(await target.everything()).toEqual(before);
      expect((await target.engine.append("/new", [{}]))[0]!.offset).toBe(2);
    }));

  test("is not replaced by an archive of one context of it, which would take all others with it", () =>
    elsewhere(async (target) => {
      await target.fill("/other", 3);
      const one = await source.export("/orders");
      const id = newImport();
      await expect(target.stage(id, inPieces(one), true)).rejects.toMatchObject({ code: "INVALID_INPUT" });
      await target.remove(id);
      expect((await target.read("/other", 0)).events).toHaveLength(4);
    }));

  test("is replaced whole, also for a process that remembers it", () =>
    elsewhere(async (target, url) => {
      const remembering = new ArchivePod(url);
      await remembering.fill("/orders", 30);
      await remembering.fill("/other", 3);
      await target.read("/orders", 0);
      const id = newImport();
      await target.stage(id, inPieces(smaller), true);
      // It serves until the import is opened.
      expect((await remembering.engine.append("/orders", [{}]))[0]!.offset).toBe(32);
      await target.open(id);
      const landed = await remembering.engine.append("/orders", [{ payload: "after" }]);
      for (const pod of [remembering, target]) {
        const { events } = await pod.read("/orders", 0);
        expect(events.map(({ offset }) => Number(offset))).toEqual([1, 2, 3, 4, 5, landed[0]!.offset]);
        expect((await pod.read("/orders", 0, ["example.com/happened"])).events).toHaveLength(3);
        expect(await pod.head("/other")).toBeUndefined();
      }
      await target.remove(id);
      const { rows } = await target.pool.query<{ n: number }>(`select count(*)::int as n from context where owner <> $1`, [owner]);
      expect(rows[0]!.n).toBe(0);
      await remembering.close();
    }));

  test("acknowledges no append that is not there afterwards, however fast it is appended to", { timeout: 60_000 }, () =>
    elsewhere(async (target, url) => {
      const writers = [new ArchivePod(url), new ArchivePod(url)];
      await writers[0]!.fill("/orders", 2);
      let isOpen = false;
      const acknowledged: number[] = [];
      const write = async (pod: ArchivePod): Promise<void> => {
        for (let after = 0; after < 20;) {
          const wasOpen = isOpen;
          const receipts = await pod.engine.append("/orders", [{ payload: "race" }]).catch(() => []);
          if (wasOpen) after += 1;
          if (wasOpen) acknowledged.push(...receipts.map(({ offset }) => offset));
        }
      };
      const id = newImport();
      await target.stage(id, inPieces(smaller), true);
      const writing = writers.map(write);
      await target.open(id).finally(() => (isOpen = true));
      await Promise.all(writing);
      const offsets = new Set((await target.read("/orders", 0)).events.map(({ offset }) => Number(offset)));
      for (const offset of acknowledged) expect(offsets).toContain(offset);
      expect(acknowledged.length).toBeGreaterThan(0);
      await Promise.all(writers.map((pod) => pod.close()));
    }),
  );
});
