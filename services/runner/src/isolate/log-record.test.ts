import { expect, test } from "vitest";
import { cutText, LogBudget, parseOutputLine } from "./log-record.js";

const nowUs = 1_800_000_000_000_000;
const line = (message: string, level = "log", timestamp: unknown = nowUs / 1_000) => JSON.stringify({ timestamp, level, message });

test.each([
  ["d", "debug"],
  ["i", "info"],
  ["w", "warn"],
  ["e", "error"],
])("a tagged line of mark %s is a record of level %s and of its invocation", (mark, level) => {
  expect(parseOutputLine(line(`\u001e7${mark}\u001fhello\nworld`), nowUs)).toEqual({
    kind: "record",
    ordinal: 7,
    record: { level, message: "hello\nworld", atUs: nowUs },
  });
});

test("a line without a tag is a record of nobody", () => {
  expect(parseOutputLine(line("x", "error"), nowUs)).toEqual({
    kind: "record",
    record: { level: "error", message: "x", atUs: nowUs },
  });
});

test("the end mark is no record", () => {
  expect(parseOutputLine(line("\u001e12\u0004"), nowUs)).toEqual({ kind: "drained", ordinal: 12 });
});

test.each([0, -1, 1e300, "soon", null, nowUs / 1_000 + 2 * 86_400_000])("the time %s is replaced by now", (timestamp) => {
  expect(parseOutputLine(line("x", "log", timestamp), nowUs)).toMatchObject({ record: { atUs: nowUs } });
});

test.each(["", "no json", "[]", "null", '"text"', '{"level":"log"}', '{"message":1}'])("%j is no line of the log", (text) => {
  expect(parseOutputLine(text, nowUs)).toBeUndefined();
});

test("records pass up to the cap, then one says that the rest is cut, then nothing", () => {
  const budget = new LogBudget({ logBytes: 10, logRecordBytes: 6 });
  const take = (message: string) => budget.take({ level: "info", atUs: 1, message })?.message;
  expect(take("12345")).toBe("12345");
  expect(take("12345")).toBe("12345");
  expect(take("1")).toMatch(/^truncated: .* more than 10 bytes/);
  expect(take("")).toBeUndefined();
});

test("a record over its size is cut", () => {
  const budget = new LogBudget({ logBytes: 100, logRecordBytes: 6 });
  expect(budget.take({ level: "info", atUs: 1, message: "1234567" })!.message).toBe("123…");
});

test.each([
  ["abc", 3, "abc"],
  ["abcd", 4, "abcd"],
  ["abcde", 4, "a…"],
  ["ééé", 5, "é…"],
  ["😀😀", 7, "😀…"],
  ["😀😀", 6, "…"],
])("%j cut to %i bytes is %j", (text, bytes, cut) => {
  expect(cutText(text, bytes)).toBe(cut);
  expect(Buffer.byteLength(cutText(text, bytes))).toBeLessThanOrEqual(bytes);
});
