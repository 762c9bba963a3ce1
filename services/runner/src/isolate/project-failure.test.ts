import { expect, test } from "vitest";
import { projectFailure } from "./project-failure.js";

const failure = (claim: unknown) => projectFailure(Buffer.from(JSON.stringify(claim)));

test.each(["PERMANENT_FAILURE", "STREAM_PAUSED", "REDUCE_CHECKPOINT_TOO_LARGE", "LOOP_LIMIT", "FORBIDDEN"])(
  "the code %s is the project's to throw",
  (code) => {
    expect(failure({ code, message: "m", data: { a: 1 } }).error).toMatchObject({ code, message: "m", data: { a: 1 } });
  },
);

test.each([
  "ISOLATE_LOST",
  "ISOLATE_CPU",
  "QUOTA",
  "CANCELLED",
  "UNAVAILABLE",
  "OVERLOADED",
  "INTERNAL",
  "UNAUTHENTICATED",
  "MADE_UP",
])("the code %s is a verdict of the platform and becomes CODE_FAILED", (code) => {
  expect(failure({ code, message: "m" }).error).toMatchObject({ code: "CODE_FAILED", data: { code } });
});

test.each([null, 7, "x", [], { code: 5, message: {}, stack: 1, data: [] }])(
  "the claim %j still fails in one readable way",
  (claim) => {
    expect(failure(claim)).toMatchObject({
      error: { code: "CODE_FAILED", message: "The code failed and did not say how.", data: {} },
      stack: "",
    });
  },
);

test("what is no JSON, and what is too large, is cut down", () => {
  expect(projectFailure(Buffer.from("{")).error.code).toBe("CODE_FAILED");
  const { error, stack } = failure({ message: "m".repeat(10_000), stack: "s".repeat(20_000), data: { big: "d".repeat(20_000) } });
  expect(Buffer.byteLength(error.message)).toBeLessThanOrEqual(4 * 1024);
  expect(Buffer.byteLength(stack)).toBeLessThanOrEqual(8 * 1024);
  expect(error.data).toEqual({});
});
