import { describe, expect, it } from "vitest";
import { CodedError, codedError, errorCode, errorCodes, isCodedError, isErrorCode, toCodedError } from "./coded-error.js";

describe("CodedError", () => {
  it("carries its code, its data and whether a retry may help", () => {
    const error = new CodedError("UNAVAILABLE", "the log is away", {
      data: { peer: "context" },
      retryAfterMs: 500,
      cause: "reset",
    });
    expect(error).toMatchObject({
      name: "CodedError",
      code: "UNAVAILABLE",
      message: "the log is away",
      data: { peer: "context" },
      retryAfterMs: 500,
      cause: "reset",
      kind: "unavailable",
      retryable: true,
    });
    expect(codedError("NOT_FOUND", "no such project")).toMatchObject({ data: {}, kind: "refused", retryable: false });
  });

  it.each(Object.entries(errorCodes))("gives %s a gRPC and an HTTP status and a sentence", (_code, info) => {
    expect(info.grpc).toBeGreaterThan(0);
    expect(info.grpc).toBeLessThanOrEqual(16);
    expect(info.http).toBeGreaterThanOrEqual(400);
    expect(info.http).toBeLessThan(600);
    expect(info.description).toMatch(/^[A-Z].*\.$/);
  });

  it("is known across copies of the module, and only as an Error", () => {
    const foreign = Object.assign(new Error("elsewhere"), { [Symbol.for("iterate.CodedError")]: true, code: "NOT_FOUND" });
    expect(isCodedError(foreign)).toBe(true);
    expect(isCodedError(Object.assign(new Error("plain"), { code: "NOT_FOUND" }))).toBe(false);
    expect(isCodedError({ code: "NOT_FOUND" })).toBe(false);
  });
});

describe("errorCode", () => {
  it.each([
    ["an own code of the list", Object.assign(new Error("x"), { code: "FORBIDDEN" }), "FORBIDDEN"],
    ["a code of another system", Object.assign(new Error("x"), { code: "ECONNRESET" }), "INTERNAL"],
    ["an inherited name", Object.assign(new Error("x"), { code: "toString" }), "INTERNAL"],
    ["no Error", { code: "FORBIDDEN" }, "INTERNAL"],
    ["nothing", undefined, "INTERNAL"],
  ])("of %s", (_name, thrown, expected) => {
    expect(errorCode(thrown)).toBe(expected);
  });
  it("answers the fallback, and takes only names of the list", () => {
    expect(errorCode(new Error("x"), "CODE_FAILED")).toBe("CODE_FAILED");
    expect(isErrorCode("constructor")).toBe(false);
  });
});

describe("toCodedError", () => {
  it("keeps a CodedError and rebuilds one that crossed a wire as a plain Error", () => {
    const own = codedError("NOT_FOUND", "gone");
    expect(toCodedError(own)).toBe(own);
    const wired = toCodedError(
      Object.assign(new Error("slow down"), { code: "OVERLOADED", data: { limit: 8 }, retryAfterMs: 250 }),
    );
    expect(wired).toMatchObject({ code: "OVERLOADED", message: "slow down", data: { limit: 8 }, retryAfterMs: 250 });
    expect(isCodedError(wired)).toBe(true);
  });
  it.each([
    [new TypeError("x is not a function"), "x is not a function"],
    ["a string", "a string"],
    [null, "null"],
  ])("gives %s the fallback code and keeps the cause", (thrown, message) => {
    const error = toCodedError(thrown, "UNAVAILABLE");
    expect(error).toMatchObject({ code: "UNAVAILABLE", message });
    expect(error.cause).toBe(thrown);
  });
});
