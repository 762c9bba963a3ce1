import { expect, test } from "vitest";
import { invocationLimits, isolateLimits } from "./limits.js";

test.each([
  [undefined, isolateLimits.deadlineMs],
  [0, isolateLimits.deadlineMs],
  [1, 1],
  [isolateLimits.deadlineMs - 1, isolateLimits.deadlineMs - 1],
  [isolateLimits.deadlineMs, isolateLimits.deadlineMs],
  [isolateLimits.deadlineMs + 1, isolateLimits.deadlineMs],
])("a wish for a deadline of %s ms gets %s ms", (deadlineMs, granted) => {
  expect(invocationLimits(deadlineMs === undefined ? {} : { deadlineMs }, isolateLimits).deadlineMs).toBe(granted);
});

test.each([-1, 1.5, Number.NaN])("a wish for %s host calls is refused by name", (hostCalls) => {
  expect(() => invocationLimits({ hostCalls }, isolateLimits)).toThrow(
    expect.objectContaining({ code: "INVALID_INPUT", message: expect.stringContaining("max_host_calls") }),
  );
});
