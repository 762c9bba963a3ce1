import { expect, test } from "vitest";
import { parseProcessStat, readProcessStat } from "./process-stat.js";

test("a command name with spaces and parentheses does not shift the fields", () => {
  const line = "42 (my ) (cmd) S 1 42 42 0 -1 4194560 100 0 0 0 12 3 0 0 20 0 4 0 100 1000000 256 18446744073709551615 1";
  expect(parseProcessStat(line)).toEqual({ cpuMs: 150, residentBytes: 256 * 4096 });
});

test("text that is no stat line, and a process that is gone, have none", () => {
  expect(parseProcessStat("")).toBeUndefined();
  expect(readProcessStat(2 ** 30)).toBeUndefined();
});

test("this process uses memory", () => {
  expect(readProcessStat(process.pid)!.residentBytes).toBeGreaterThan(10 * 2 ** 20);
});
