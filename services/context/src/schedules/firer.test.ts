import { useTestDatabase } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { code, migrateLog, person } from "../log/engine.fixture.js";
import { claimMs } from "./firer.js";
import { SchedulePod } from "./schedules.fixture.js";

const database = useTestDatabase();
let pod: SchedulePod;
let other: SchedulePod;
beforeAll(async () => {
  await migrateLog(database.url);
  pod = new SchedulePod(database.url);
  other = new SchedulePod(database.url);
});
afterAll(() => Promise.all([pod.close(), other.close()]));

let paths = 0;
const newPath = (): string => `/schedules/${++paths}`;
const typesOf = (events: readonly { readonly type: string }[]): string[] =>
  events.map(({ type }) => type.replace("events.iterate.com/", ""));
const minute = 60_000;

describe("a firing", () => {
  test("appends the events and its record as one batch, and ends a schedule that was for once", async () => {
    const path = newPath();
    const events = [
      { type: "example.com/one", payload: { big: 1 } },
      { type: "example.com/two", metadata: { m: 1 } },
    ];
    const offset = await pod.set(path, "k", { afterMs: 0 }, { events, append: { writer: person } });
    const stored = (await pod.untilFired(path, 1)).filter((event) => event.offset > offset);
    expect(typesOf(stored)).toEqual(["example.com/one", "example.com/two", "itx/schedule-fired"]);
    expect(stored.map((event) => event.offset)).toEqual([offset + 1, offset + 2, offset + 3]);
    const { at } = stored[2]!.payload as { at: string };
    const source = {
      origin: "/",
      cause: person.cause,
      schedule: { key: "k", scheduledAtOffset: offset, at, definedBy: { origin: "/", principal: "usr_test" } },
    };
    expect(stored.slice(0, 2).map((event) => event.source)).toEqual([source, source]);
    expect(stored[2]).toMatchObject({
      payload: { key: "k", scheduledAtOffset: offset, at, nextAt: null },
      source: { origin: path, cause: person.cause, platform: true },
    });
    expect((await pod.head(path)).core.schedules).toEqual({});
    expect(await pod.dueRows(path)).toEqual([]);
  });

  test("is never before its time, and found soon after", async () => {
    const path = newPath();
    const offset = await pod.set(path, "k", { afterMs: 300 });
    await pod.firer.round(0);
    expect(typesOf(await pod.events(path, offset))).toEqual([]);
    expect(await pod.firer.round(1_000)).toMatchObject({ nextInMs: expect.any(Number) as number });
    const events = await pod.untilFired(path, 1);
    const [set, fired] = [events.find((event) => event.offset === offset)!, events.at(-1)!];
    expect(fired.createdAtMs - set.createdAtMs).toBeGreaterThanOrEqual(300);
    expect(Date.parse((fired.payload as { at: string }).at) - set.createdAtMs).toBeGreaterThanOrEqual(300);
  });

  test("keeps the spelling of numbers", async () => {
    const path = newPath();
    const payload = Buffer.from(
      '{"key":"k","when":{"afterMs":0},"events":[{"type":"a/b","payload":{"n":9007199254740993,"z":1.50}}]}',
    );
    await pod.append(path, itx.scheduleSet.type, payload);
    await pod.untilFired(path, 1);
    const { rows } = await pod.pool.query(
      `select payload from event where context_id = $1 and payload like '%9007%' order by "offset"`,
      [(await pod.head(path)).contextId],
    );
    expect(rows.at(-1)).toEqual({ payload: '{"n":9007199254740993,"z":1.50}' });
  });

  test("of five missed ticks is one, and the next is on the grid", async () => {
    const path = newPath();
    const offset = await pod.set(path, "k", { everyMs: minute });
    await pod.age(path, 6.5 * minute);
    const events = await pod.untilFired(path, 1);
    const set = events.find((event) => event.offset === offset)!;
    await pod.firer.round(0);
    const fired = (await pod.events(path)).filter(({ type }) => type === itx.scheduleFired.type);
    expect(fired).toHaveLength(1);
    const { at, nextAt } = fired[0]!.payload as { at: string; nextAt: string };
    expect((Date.parse(nextAt) - Date.parse(at)) / minute).toBe(6);
    expect(Date.parse(at) - minute - set.createdAtMs).toBeLessThanOrEqual(1);
    expect(await pod.dueRows(path)).toEqual([{ key: "k", scheduledAt: offset, dueMs: Date.parse(nextAt) }]);
  });

  test("of a pattern comes at its place, and its row is placed before that without an event", async () => {
    const path = newPath();
    const offset = await pod.set(path, "k", { cron: "0 0 1 1 *", timeZone: "Europe/London" });
    await pod.firer.round(0);
    expect(await pod.dueRows(path)).toEqual([
      { key: "k", scheduledAt: offset, dueMs: Date.UTC(new Date().getUTCFullYear() + 1, 0, 1) },
    ]);
    expect(typesOf(await pod.events(path, offset))).toEqual([]);
  });

  test("of occurrences that were skipped says since when", async () => {
    const path = newPath();
    await pod.set(path, "k", { cron: "* * * * *", timeZone: "UTC", catchUp: "skip" });
    await pod.age(path, 10 * minute);
    const fired = (await pod.untilFired(path, 1)).find(({ type }) => type === itx.scheduleFired.type)!;
    const { at, since, nextAt } = fired.payload as { at: string; since: string; nextAt: string };
    expect((Date.parse(at) - Date.parse(since)) / minute).toBeGreaterThanOrEqual(8);
    expect(Date.parse(nextAt) - Date.parse(at)).toBe(minute);
  });

  test("catches up as often as allowed", async () => {
    const path = newPath();
    await pod.set(path, "k", { cron: "* * * * *", timeZone: "UTC", catchUp: "all", max: 3 });
    await pod.age(path, 10 * minute);
    const fired = (await pod.untilFired(path, 3)).filter(({ type }) => type === itx.scheduleFired.type);
    const times = fired.map(({ payload }) => Date.parse((payload as { at: string }).at) / minute);
    expect(times.slice(1).map((time, at) => time - times[at]!)).toEqual([1, 1]);
  });
});

describe("a schedule that is not what its row says", () => {
  test("is not fired when it was cancelled, and its row goes", async () => {
    const path = newPath();
    const offset = await pod.set(path, "k", { everyMs: minute });
    const rows = await pod.dueRows(path);
    await pod.append(path, itx.scheduleCancelled.type, { key: "k", ifScheduledAtOffset: offset });
    expect(await pod.dueRows(path)).toEqual([]);
    await pod.pool.query("insert into schedule_due (context_id, key, scheduled_at, due_at) values ($1, 'k', $2, now())", [
      (await pod.head(path)).contextId,
      rows[0]!.scheduledAt,
    ]);
    const { repaired } = pod.firer.counts;
    await pod.firer.round(0);
    expect(pod.firer.counts.repaired).toBe(repaired + 1);
    expect(await pod.dueRows(path)).toEqual([]);
    expect(typesOf(await pod.events(path, offset))).toEqual(["itx/schedule-cancelled"]);
  });

  test("is not fired when it is replaced between the look and the append", async () => {
    const path = newPath();
    const offset = await pod.set(path, "k", { afterMs: 0 });
    let replacedAt = 0;
    const racing = new SchedulePod(database.url, (store) => ({
      claimDue: (...asked) => store.claimDue(...asked),
      settleDue: (...asked) => store.settleDue(...asked),
      lackingDue: (...asked) => store.lackingDue(...asked),
      restoreDue: (...asked) => store.restoreDue(...asked),
      definitions: async (places) => {
        replacedAt = await other.set(path, "k", { afterMs: minute });
        return store.definitions(places);
      },
    }));
    await pod.pool.query("update schedule_due set due_at = now() where context_id = $1", [(await pod.head(path)).contextId]);
    await racing.firer.round(0);
    await racing.close();
    expect(racing.failures).toEqual([]);
    expect(typesOf(await pod.events(path, offset))).toEqual(["itx/schedule-set"]);
    expect(await pod.dueRows(path)).toMatchObject([{ key: "k", scheduledAt: replacedAt }]);
  });

  test("has its row restored by the sweep when it is missing, which is counted", async () => {
    const path = newPath();
    await pod.set(path, "k", { afterMs: 0 });
    await pod.pool.query("delete from schedule_due where context_id = $1", [(await pod.head(path)).contextId]);
    const { restored } = other.sweeper;
    await other.sweeper.round();
    await other.sweeper.round();
    expect(other.sweeper.restored).toBe(restored + 1);
    await pod.untilFired(path, 1);
  });
});

describe("a pause", () => {
  test("holds what is due, and a resume fires it", async () => {
    const path = newPath();
    const offset = await pod.set(path, "k", { afterMs: 0 });
    await pod.append(path, itx.paused.type, {});
    expect(await pod.dueRows(path)).toMatchObject([{ dueMs: Infinity }]);
    await pod.firer.round(0);
    expect(typesOf(await pod.events(path, offset))).toEqual(["itx/paused"]);
    await pod.append(path, itx.resumed.type, {});
    expect(typesOf((await pod.untilFired(path, 1)).slice(-2))).toEqual(["example.com/due", "itx/schedule-fired"]);
  });

  test("that an older release recorded holds a row that is claimed", async () => {
    const path = newPath();
    await pod.set(path, "k", { afterMs: 0 });
    await pod.append(path, itx.paused.type, {});
    await pod.pool.query("update schedule_due set due_at = now() where context_id = $1", [(await pod.head(path)).contextId]);
    await pod.firer.round(0);
    expect(await pod.dueRows(path)).toMatchObject([{ dueMs: Infinity }]);
  });
});

describe("a refusal", () => {
  test("lets the schedule rest, with the reason", async () => {
    const path = newPath();
    const events = [{ type: itx.subscriptionConfigured.type, payload: { name: "s", target: ["itx", "x"], afterOffset: 1 } }];
    const offset = await pod.set(path, "k", { everyMs: minute }, { events });
    await pod.append(path, itx.retentionConfigured.type, { keepFrom: { offset: 3 } });
    const { lastOffset } = await pod.head(path);
    await pod.append(path, itx.logTruncated.type, { firstOffset: 3, decidedAtOffset: lastOffset, undelivered: [] });
    await pod.age(path, 2 * minute);
    await pod.firer.round(0);
    const failed = (await pod.events(path)).at(-1)!;
    expect(failed).toMatchObject({
      type: itx.scheduleFailed.type,
      payload: {
        key: "k",
        scheduledAtOffset: offset,
        at: expect.any(String) as string,
        error: expect.stringContaining("are gone") as string,
      },
      source: { platform: true },
    });
    expect(await pod.dueRows(path)).toEqual([]);
    expect((await pod.head(path)).core.schedules["k"]).toMatchObject({ failedAtOffset: failed.offset });
  });

  test("by the project's policy is one too, and the record of a firing is beyond it", async () => {
    const path = newPath();
    const rules = [{ types: ["example.com/*"], paths: [path], origins: [] }];
    await pod.set(path, "denied", { afterMs: 0 }, { append: { writer: code({ origin: path }) } });
    await pod.set(
      path,
      "allowed",
      { afterMs: 0 },
      { events: [{ type: "other.com/x" }], append: { writer: code({ origin: path }) } },
    );
    const all = [...rules, { types: ["events.iterate.com/itx/*"], paths: [path], origins: [] }];
    await pod.append("/", itx.appendPolicyConfigured.type, { rules: all });
    await pod.untilFired(path, 1);
    await pod.append("/", itx.appendPolicyConfigured.type, { rules: null });
    const facts = (await pod.events(path)).filter(({ type }) => type.includes("schedule-f"));
    expect(facts.map(({ type, payload }) => [type, (payload as { key: string }).key]).sort()).toEqual([
      [itx.scheduleFailed.type, "denied"],
      [itx.scheduleFired.type, "allowed"],
    ]);
  });
});

describe("two processes", () => {
  test("fire each occurrence once", async () => {
    const path = newPath();
    const keys = Array.from({ length: 40 }, (_, n) => `k${n}`);
    await Promise.all(keys.map((key) => pod.set(path, key, { everyMs: minute })));
    await pod.age(path, 90_000);
    // One of them takes what the other has claimed and seems to have forgotten.
    const rounds = async (one: SchedulePod): Promise<void> => {
      for (let n = 0; n < 6; n += 1) {
        await one.pool.query("update schedule_due set claimed_until = '-infinity' where due_at <= now()");
        await one.firer.round(0);
      }
    };
    await Promise.all([rounds(pod), rounds(other)]);
    const fired = (await pod.events(path)).filter(({ type }) => type === itx.scheduleFired.type);
    expect(fired.map(({ payload }) => (payload as { key: string }).key).sort()).toEqual(keys.toSorted());
    expect((await pod.events(path)).filter(({ type }) => type === "example.com/due")).toHaveLength(keys.length);
  });

  test("leave what one of them has claimed to it, until the claim ends", async () => {
    const path = newPath();
    await pod.set(path, "k", { everyMs: minute });
    await pod.age(path, 90_000);
    const { claims } = await pod.engine.store.schedules.claimDue(1_000, claimMs, 0);
    expect(claims.map(({ key }) => key)).toContain("k");
    expect((await other.engine.store.schedules.claimDue(1_000, claimMs, 0)).claims).toEqual([]);
    await pod.pool.query("update schedule_due set claimed_until = now()");
    expect((await other.engine.store.schedules.claimDue(1_000, claimMs, 0)).claims).toHaveLength(claims.length);
  });
});

test("an ordinary commit says nothing of schedules", async () => {
  const path = newPath();
  const { rung } = pod;
  await pod.append(path, "example.com/a", {});
  await pod.append(path, itx.subscriptionConfigured.type, { name: "a", target: ["itx"] });
  expect(pod.rung).toBe(rung);
  await pod.set(path, "k", { afterMs: minute });
  expect(pod.rung).toBe(rung + 1);
});
