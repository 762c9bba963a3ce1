import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CronSchedule } from "./cron.js";

const times = (pattern: string, zone: string, from: string, count: number): string[] => {
  const schedule = new CronSchedule(pattern, zone);
  const found: string[] = [];
  let at: number | null = Date.parse(from);
  while (found.length < count && (at = schedule.after(at)) !== null)
    found.push(new Date(at).toISOString().replace(":00.000Z", "Z"));
  return found;
};

/** Per zone: a day whose clock goes forward, with times before, in and after the gap; a day whose clock goes back. */
const table = [
  // Forward at 01:00Z: 01:00 → 02:00. Back at 01:00Z: 02:00 → 01:00.
  ["Europe/London", "30 0 * * *", "2026-03-29T00:00Z", ["2026-03-29T00:30Z", "2026-03-29T23:30Z"]],
  ["Europe/London", "30 1 * * *", "2026-03-28T02:00Z", ["2026-03-29T01:00Z", "2026-03-30T00:30Z"]],
  ["Europe/London", "*/15 * * * *", "2026-03-29T00:30Z", ["2026-03-29T00:45Z", "2026-03-29T01:00Z", "2026-03-29T01:15Z"]],
  ["Europe/London", "30 2 * * *", "2026-03-28T03:00Z", ["2026-03-29T01:30Z", "2026-03-30T01:30Z"]],
  ["Europe/London", "30 1 * * *", "2026-10-24T12:00Z", ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]],
  ["Europe/London", "*/30 * * * *", "2026-10-24T23:45Z", ["2026-10-25T00:00Z", "2026-10-25T00:30Z", "2026-10-25T02:00Z"]],
  ["Europe/London", "0 2 * * *", "2026-10-24T12:00Z", ["2026-10-25T02:00Z", "2026-10-26T02:00Z"]],
  // Forward at 07:00Z: 02:00 → 03:00. Back at 06:00Z: 02:00 → 01:00.
  ["America/New_York", "30 2 * * *", "2026-03-07T12:00Z", ["2026-03-08T07:00Z", "2026-03-09T06:30Z"]],
  ["America/New_York", "0 2,3 * * *", "2026-03-07T12:00Z", ["2026-03-08T07:00Z", "2026-03-09T06:00Z", "2026-03-09T07:00Z"]],
  ["America/New_York", "30 1 * * *", "2026-10-31T12:00Z", ["2026-11-01T05:30Z", "2026-11-02T06:30Z"]],
  ["America/New_York", "0 9 * * MON-FRI", "2026-03-06T15:00Z", ["2026-03-09T13:00Z", "2026-03-10T13:00Z"]],
  // By half an hour. Forward at 15:30Z: 02:00 → 02:30. Back at 15:00Z: 02:00 → 01:30.
  ["Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00Z", ["2026-10-03T15:30Z", "2026-10-04T15:15Z"]],
  ["Australia/Lord_Howe", "30 2 * * *", "2026-10-03T00:00Z", ["2026-10-03T15:30Z", "2026-10-04T15:30Z"]],
  ["Australia/Lord_Howe", "45 1 * * *", "2026-04-04T00:00Z", ["2026-04-04T14:45Z", "2026-04-05T15:15Z"]],
  ["Australia/Lord_Howe", "*/15 * * * *", "2026-04-04T14:20Z", ["2026-04-04T14:30Z", "2026-04-04T14:45Z", "2026-04-04T15:30Z"]],
  // No daylight saving.
  ["Asia/Kolkata", "30 2 * * *", "2026-03-28T00:00Z", ["2026-03-28T21:00Z", "2026-03-29T21:00Z"]],
  ["Asia/Kolkata", "30 1 * * *", "2026-10-24T00:00Z", ["2026-10-24T20:00Z", "2026-10-25T20:00Z"]],
  // A day that was skipped whole.
  ["Pacific/Apia", "0 12 * * *", "2011-12-29T23:00Z", ["2011-12-30T10:00Z", "2011-12-30T22:00Z"]],
] as const;

describe("a pattern on the clock of a zone", () => {
  test.each(table)("%s %s after %s", (zone, pattern, from, expected) => {
    expect(times(pattern, zone, from, expected.length)).toEqual(expected);
  });

  test("follows the calendar", () => {
    expect(times("0 0 29 2 *", "UTC", "2026-01-01T00:00Z", 2)).toEqual(["2028-02-29T00:00Z", "2032-02-29T00:00Z"]);
    expect(times("0 0 13 * FRI", "UTC", "2026-02-01T00:00Z", 3)).toEqual([
      "2026-02-06T00:00Z",
      "2026-02-13T00:00Z",
      "2026-02-20T00:00Z",
    ]);
    expect(times("@monthly", "UTC", "2026-01-01T00:00Z", 1)).toEqual(["2026-02-01T00:00Z"]);
  });

  test.each([
    ["", "UTC", /no cron pattern/],
    ["* * * *", "UTC", /no cron pattern/],
    ["* * * * * *", "UTC", /no cron pattern/],
    ["60 * * * *", "UTC", /no cron pattern/],
    ["0 0 31 2 *", "UTC", /never comes/],
    ["* * * * *", "Europe/Atlantis", /no time zone/],
    ["* * * * *", "+02:00", /no time zone/],
    ["* * * * *", "", /no time zone/],
  ])("%j in %j is refused", (pattern, zone, message) => {
    expect(() => new CronSchedule(pattern, zone)).toThrow(message);
  });

  test("the newest occurrences of a range come oldest first, and no more than asked for", () => {
    const schedule = new CronSchedule("*/10 * * * *", "Europe/London");
    const [from, through] = [Date.parse("2026-06-01T00:00Z"), Date.parse("2026-06-01T02:00Z")];
    expect(schedule.latest(2, from, through)).toEqual([Date.parse("2026-06-01T01:50Z"), through]);
    expect(schedule.latest(100, from, through)).toHaveLength(12);
    expect(schedule.latest(2, through, through)).toEqual([]);
  });
});

const zones = ["Europe/London", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata", "UTC"];
const patterns = [
  "* * * * *",
  "*/7 * * * *",
  "30 1 * * *",
  "15 2 * * *",
  "0 */5 * * *",
  "45 1 1 * *",
  "0 0 * * SUN",
  "59 23 L * *",
];

test("occurrences strictly increase, are after what they were asked for, and show a time of the pattern or the end of a gap", () => {
  const instants = fc.integer({ min: Date.UTC(2015, 0, 1), max: Date.UTC(2035, 0, 1) });
  fc.assert(
    fc.property(fc.constantFrom(...zones), fc.constantFrom(...patterns), instants, (zone, pattern, from) => {
      const schedule = new CronSchedule(pattern, zone);
      const utc = new CronSchedule(pattern, "UTC");
      let last = from;
      for (let n = 0; n < 5; n += 1) {
        const at = schedule.after(last)!;
        expect(at).toBeGreaterThan(last);
        // Asked from anywhere between, the answer is the same.
        expect(schedule.after(last + Math.floor((at - last) / 2))).toBe(at);
        const wall = wallOf(zone, at);
        const isOnPattern = utc.after(wall - 1) === wall;
        const isEndOfGap = wallOf(zone, at - 1) + 1 < wall;
        expect(isOnPattern || isEndOfGap, `${zone} ${pattern} ${new Date(at).toISOString()}`).toBe(true);
        last = at;
      }
    }),
    { numRuns: 150 },
  );
});

/** What a clock in the zone shows, read another way than the code does. */
function wallOf(zone: string, ms: number): number {
  const text = new Date(ms).toLocaleString("sv-SE", { timeZone: zone, hour12: false });
  return Date.parse(`${text.replace(" ", "T")}Z`) + (ms % 1_000);
}
