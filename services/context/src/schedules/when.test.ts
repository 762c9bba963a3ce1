import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ScheduleWhen } from "./contract.js";
import { firstDue, nextFiring } from "./when.js";

const at = (text: string): number => Date.parse(`2026-06-01T${text}Z`);
const cron = (fields: { catchUp?: "coalesce" | "skip" | "all"; max?: number } = {}): ScheduleWhen => ({
  cron: "*/10 * * * *",
  timeZone: "UTC",
  ...fields,
});

describe("the first occurrence", () => {
  test.each<[ScheduleWhen, number]>([
    [{ at: "2026-06-01T02:00:00+02:00" }, at("00:00")],
    [{ afterMs: 90_000 }, at("00:06:30")],
    [{ everyMs: 60_000 }, at("00:06")],
    [cron(), at("00:10")],
  ])("of %j set at 00:05", (when, due) => expect(firstDue(when, at("00:05"))).toBe(due));
});

describe("a firing", () => {
  test.each<[string, ScheduleWhen, due: string, now: string, fires: string, next: string | null]>([
    ["a time is fired once, however late", { at: "2026-06-01T00:00:00Z" }, "00:00", "05:00", "00:00", null],
    ["an interval goes on", { everyMs: 60_000 }, "00:01", "00:01", "00:01", "00:02"],
    ["five missed ticks come to one, and the next is on the grid", { everyMs: 60_000 }, "00:01", "00:06:30", "00:01", "00:07"],
    ["a tick that is due just now is not missed", { everyMs: 60_000 }, "00:01", "00:02", "00:01", "00:03"],
    ["missed occurrences coalesce", cron(), "00:10", "01:05", "00:10", "01:10"],
    ["one in time is not skipped", cron({ catchUp: "skip" }), "00:10", "00:11", "00:10", "00:20"],
    ["late ones are skipped", cron({ catchUp: "skip" }), "00:10", "00:55", "01:00", "01:10"],
    ["the newest of them is in time", cron({ catchUp: "skip" }), "00:10", "00:50:30", "00:50", "01:00"],
    ["all are caught up", cron({ catchUp: "all", max: 10 }), "00:10", "00:35", "00:10", "00:20"],
    ["as many as allowed", cron({ catchUp: "all", max: 2 }), "00:10", "00:55", "00:40", "00:50"],
    ["the last of them leads back to the pattern", cron({ catchUp: "all", max: 2 }), "00:50", "00:55", "00:50", "01:00"],
  ])("%s", (_, when, due, now, fires, next) => {
    expect(nextFiring(when, at(due), at(now))).toEqual({ at: at(fires), nextAt: next === null ? null : at(next) });
  });
});

test("no firing is before its occurrence, what follows is later and on the grid, and nothing in between is left for a second firing", () => {
  const ms = fc.integer({ min: 0, max: 4_000_000_000_000 });
  fc.assert(
    fc.property(
      ms,
      fc.integer({ min: 1_000, max: 31_536_000_000 }),
      fc.integer({ min: 0, max: 10_000_000_000 }),
      (due, everyMs, late) => {
        const firing = nextFiring({ everyMs }, due, due + late);
        expect(firing.at).toBe(due);
        expect(firing.nextAt! - due).toBeGreaterThan(late);
        expect(firing.nextAt! - due - everyMs).toBeLessThanOrEqual(late);
        expect((firing.nextAt! - due) % everyMs).toBe(0);
      },
    ),
  );
});

test("a chain of occurrences only goes forward, whatever the policy and however late each firing is", () => {
  const when = fc.constantFrom<ScheduleWhen>(cron(), cron({ catchUp: "skip" }), cron({ catchUp: "all", max: 3 }), {
    everyMs: 7_000,
  });
  fc.assert(
    fc.property(when, fc.array(fc.integer({ min: 0, max: 5_000_000 }), { minLength: 1, maxLength: 8 }), (when, lates) => {
      let due = firstDue(when, at("00:00"))!;
      let now = due;
      let last = -Infinity;
      for (const late of lates) {
        now = Math.max(now, due) + late;
        let firing = nextFiring(when, due, now);
        if (firing.at > now) firing = nextFiring(when, due, (now = firing.at));
        expect(firing.at).toBeLessThanOrEqual(now);
        expect(firing.at).toBeGreaterThan(last);
        expect(firing.nextAt!).toBeGreaterThan(firing.at);
        last = firing.at;
        due = firing.nextAt!;
      }
    }),
  );
});
