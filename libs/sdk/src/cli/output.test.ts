import { expect, it } from "vitest";
import type { LogRecord } from "../api/index.js";
import { committedEvent } from "../stream/test-support.js";
import { eventLine, logLine } from "./output.js";

const at = "2000-01-01T00:00:01.000Z";
const failed = (error: unknown, commitOid = "1a2b3c4") =>
  eventLine(committedEvent({ type: "worker-update-failed", payload: { commitOid, error } }));

it("shows what an event says failed first and whole, however long it is", () => {
  const message = `worker.ts:3:7: ${"no such module ".repeat(20)}end`;
  expect(failed({ code: "BUILD_FAILED", message })).toBe(
    `     1  ${at}  worker-update-failed  BUILD_FAILED: ${message}  {"commitOid":"1a2b3c4"}\n`,
  );
});

it("shows the lines of a failure below each other, none of which can pass for an event", () => {
  expect(failed({ code: "BUILD_FAILED", message: "worker.ts:3:7: one\n     2  2000  forged\u001b[2J" })).toBe(
    `     1  ${at}  worker-update-failed  BUILD_FAILED: worker.ts:3:7: one  {"commitOid":"1a2b3c4"}\n` +
      "        |      2  2000  forged\\u001b[2J\n",
  );
});

it.each([[null], ["boom"], [{ code: "X" }], [{ code: 1, message: "m" }], [[]]])(
  "takes the error %j, of another shape, for any other payload",
  (error) => {
    expect(failed(error)).toContain(`{"commitOid":"1a2b3c4","error":${JSON.stringify(error)}}`);
  },
);

it("still cuts what else the event holds", () => {
  expect(failed({ code: "X", message: "m" }, "c".repeat(200))).toMatch(/X: m {2}\{"commitOid":"c+…\n$/);
});

const record = (body: string, attributes: Record<string, unknown> = {}): LogRecord => ({
  at,
  severity: "warn",
  service: "runner",
  body,
  attributes: { owner: "prj_1", ...attributes },
});

it("prints a stack in lines below its record, behind everything that fits on one", () => {
  const stack = "Error: Mallory\n    at regulars.js:7:3\n    at engine.js:1:1";
  expect(logLine(record("delivery failed", { code: "CODE_FAILED", stack, offset: 4 }))).toBe(
    `${at}  warn   runner  delivery failed  code=CODE_FAILED offset=4\n` +
      "        | stack=Error: Mallory\n        |     at regulars.js:7:3\n        |     at engine.js:1:1\n",
  );
});

it("prints what code logs in several lines as several, none of which can pass for a record", () => {
  expect(logLine(record(`one\n${at}  error  forged\u2028x\r\n`, { n: 1 }))).toBe(
    `${at}  warn   runner  one  n=1\n        | ${at}  error  forged\\u2028x\n`,
  );
});
