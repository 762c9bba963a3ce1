import { expect, test } from "vitest";
import { startVerdict, Watchdog } from "./watchdog.js";

const limits = { loopMs: 1_000, hangMs: 5_000, residentBytes: 100, heapMiB: 128 };
const fresh = { cpuMs: 0, residentBytes: 10 };
const at = (nowMs: number, cpuMs: number, residentBytes = 10) => ({ nowMs, cpuMs, residentBytes });

test("a process that waits is never asked", () => {
  const watchdog = new Watchdog(limits, fresh);
  for (let now = 0; now < 60_000; now += 50) expect(watchdog.look(at(now, 19))).toBe("well");
});

test("a process that a busy machine gives little is asked once it has burnt enough", () => {
  const watchdog = new Watchdog(limits, fresh);
  expect([5, 10, 15, 20].map((cpu, i) => watchdog.look(at(50 * i, cpu)))).toEqual(["well", "well", "well", "ping"]);
});

test("a process that burns is asked, and an answer makes it quiet again", () => {
  const watchdog = new Watchdog(limits, fresh);
  expect(watchdog.look(at(50, 20))).toBe("ping");
  expect(watchdog.look(at(100, 60))).toBe("well");
  watchdog.answered();
  expect(watchdog.look(at(10_000, 70))).toBe("ping");
});

test.each([
  [1_499, 1_000, "well"],
  [1_500, 519, "well"],
  [1_500, 520, "loop"],
])("asked at 500 ms having burnt 20 ms, at %s ms having burnt %s ms it is %s", (now, cpu, verdict) => {
  const watchdog = new Watchdog(limits, fresh);
  watchdog.look(at(500, 20));
  expect(watchdog.look(at(now, cpu))).toBe(verdict);
});

test.each([
  [5_499, "well"],
  [5_500, "hang"],
])("asked at 500 ms and burning nothing, at %s ms it is %s", (now, verdict) => {
  const watchdog = new Watchdog(limits, fresh);
  watchdog.look(at(500, 20));
  expect(watchdog.look(at(now, 20))).toBe(verdict);
});

test.each([
  [96 * 2 ** 20 - 1, "loop"],
  [96 * 2 ** 20, "memory"],
])("a loop that has grown by %s bytes since it was well is %s, however late it was asked", (growth, verdict) => {
  const watchdog = new Watchdog({ ...limits, residentBytes: Number.MAX_SAFE_INTEGER }, fresh);
  watchdog.look(at(500, 20, growth));
  expect(watchdog.look(at(1_500, 1_020, 10 + growth))).toBe(verdict);
});

test("growth before the last answer is not held against a loop", () => {
  const watchdog = new Watchdog({ ...limits, residentBytes: Number.MAX_SAFE_INTEGER }, fresh);
  watchdog.look(at(500, 20, 200 * 2 ** 20));
  watchdog.answered();
  watchdog.look(at(1_000, 60, 200 * 2 ** 20));
  expect(watchdog.look(at(2_000, 1_060, 201 * 2 ** 20))).toBe("loop");
});

test("a suspected process is asked once whatever it burns, and the looks go on until it answers", () => {
  const watchdog = new Watchdog(limits, fresh);
  watchdog.suspect();
  expect(watchdog.isAsking).toBe(true);
  expect(watchdog.look(at(50, 0))).toBe("ping");
  expect(watchdog.isAsking).toBe(true);
  watchdog.answered();
  expect(watchdog.isAsking).toBe(false);
  expect(watchdog.look(at(100, 0))).toBe("well");
});

test.each([
  [99, "well"],
  [100, "well"],
  [101, "memory"],
])("at %s resident bytes of 100 it is %s", (bytes, verdict) => {
  expect(new Watchdog(limits, fresh).look(at(0, 0, bytes))).toBe(verdict);
});

test("a start is late past its deadline once half of it is burnt, and past the hang bound in any case", () => {
  const start = { startDeadlineMs: 2_000, hangMs: 5_000 };
  expect(startVerdict(0, at(1_999, 2_000), start)).toBe("well");
  expect(startVerdict(0, at(2_000, 999), start)).toBe("well");
  expect(startVerdict(0, at(2_000, 1_000), start)).toBe("late");
  expect(startVerdict(0, at(5_000, 0), start)).toBe("late");
});
