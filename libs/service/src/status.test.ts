import { status as grpcStatus, type ServiceError } from "@grpc/grpc-js";
import { BadRequest, ErrorInfo, RetryInfo } from "@iterate-platform/proto/google/rpc/error_details";
import { Status } from "@iterate-platform/proto/google/rpc/status";
import fc from "fast-check";
import { CodedError, codedError, errorCodes, type ErrorCode } from "iterate/lib";
import { describe, expect, test } from "vitest";
import { createLog } from "./log.js";
import { answerFor, fromServiceError, maxDataBytes, maxMessageBytes, toFailure, toStatus } from "./status.js";

const typesOf = (error: CodedError): string[] =>
  toStatus(error).details.map((detail) => detail.typeUrl.replace("type.googleapis.com/google.rpc.", ""));
const roundTrip = (error: CodedError): CodedError => fromServiceError(toFailure(error), "context");

describe("a CodedError on the wire", () => {
  test("has the gRPC code of the closed list and exactly one ErrorInfo, for every code", () => {
    for (const code of Object.keys(errorCodes) as ErrorCode[]) {
      const status = toStatus(codedError(code, "observed 3", { epoch: 3 }));
      expect(status.code).toBe(errorCodes[code].grpc);
      const infos = status.details.filter((detail) => detail.typeUrl.endsWith("google.rpc.ErrorInfo"));
      expect(infos.map((info) => ErrorInfo.decode(info.value))).toMatchObject([
        { reason: code, domain: "iterate", metadata: { epoch: "3" } },
      ]);
      expect(new Set(status.details.map((detail) => detail.typeUrl)).size).toBe(status.details.length);
      expect(roundTrip(codedError(code, "observed 3"))).toMatchObject({ code, message: "observed 3" });
    }
  });

  test("says when to retry, where a retry can help", () => {
    const delayOf = (error: CodedError): unknown =>
      toStatus(error)
        .details.filter((detail) => detail.typeUrl.endsWith("RetryInfo"))
        .map((detail) => RetryInfo.decode(detail.value).retryDelay);
    expect(delayOf(codedError("UNAVAILABLE", "away"))).toMatchObject([{ seconds: 1n, nanos: 0 }]);
    expect(delayOf(new CodedError("OVERLOADED", "full", { retryAfterMs: 2_500 }))).toMatchObject([
      { seconds: 2n, nanos: 500_000_000 },
    ]);
    expect(delayOf(codedError("FORBIDDEN", "no"))).toEqual([]);
    expect(roundTrip(new CodedError("UNAVAILABLE", "away", { retryAfterMs: 250 })).retryAfterMs).toBe(250);
    expect(roundTrip(new CodedError("UNAVAILABLE", "away", { retryAfterMs: 0 })).retryAfterMs).toBe(0);
  });

  test("names the field of an invalid request", () => {
    const error = codedError("INVALID_INPUT", "path is empty", { field: "context.path" });
    expect(typesOf(error)).toEqual(["ErrorInfo", "BadRequest"]);
    expect(BadRequest.decode(toStatus(error).details[1]!.value).fieldViolations).toMatchObject([
      { field: "context.path", description: "path is empty" },
    ]);
    expect(typesOf(codedError("NOT_FOUND", "no", { field: "id" }))).toEqual(["ErrorInfo"]);
  });

  test("brings its data back as it was, for every JSON value", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string({ minLength: 1, maxLength: 20 }), fc.jsonValue({ maxDepth: 2, noUnicodeString: false }), {
          maxKeys: 4,
        }),
        (data) => {
          const json = JSON.parse(JSON.stringify(data)) as Record<string, unknown>;
          fc.pre(JSON.stringify(json).length < 1_000 && !Object.hasOwn(json, "__proto__") && isExact(json));
          expect(roundTrip(codedError("INVALID_INPUT", "m", json)).data).toEqual(json);
        },
      ),
    );
    expect(roundTrip(codedError("INVALID_INPUT", "m", { big: 2n ** 60n, text: "12", none: null })).data).toEqual({
      big: "1152921504606846976",
      text: "12",
      none: null,
    });
  });

  test("stays below what other stacks take as trailers, whatever it holds", () => {
    for (const filler of ["x", "€", "\ud83d\ude00", "\ud800", "\0"]) {
      const failure = toFailure(
        codedError("BUILD_FAILED", filler.repeat(50_000), { first: "a.ts:1", second: filler.repeat(50_000) }),
      );
      const details = failure.metadata.get("grpc-status-details-bin")[0] as Buffer;
      expect(Buffer.byteLength(failure.details)).toBeLessThanOrEqual(maxMessageBytes);
      expect(encodeURI(failure.details).length + details.toString("base64").length).toBeLessThan(8_192);
      expect(roundTrip(codedError("BUILD_FAILED", "m", { first: "a.ts:1", second: filler.repeat(maxDataBytes) })).data).toEqual({
        first: "a.ts:1",
      });
    }
  });

  test("carries no secret", () => {
    const failure = toFailure(codedError("INVALID_INPUT", "postgres://u:hunter2@h is away", { url: "postgres://u:hunter2@h" }));
    expect(failure.details + String(failure.metadata.get("grpc-status-details-bin")[0])).not.toContain("hunter2");
  });
});

describe("anything else that is thrown", () => {
  test("is logged in full under an id and answered with that id alone", () => {
    const lines: string[] = [];
    const answer = answerFor(
      new TypeError("undefined at /srv/context/append.ts"),
      createLog("context", { write: (line) => lines.push(line) }),
      { method: "/s/M" },
    );
    const line = JSON.parse(lines[0]!) as { logId: string; method: string; error: { message: string; stack: string } };
    expect(answer).toMatchObject({ code: "INTERNAL", data: { logId: line.logId } });
    expect(line).toMatchObject({
      method: "/s/M",
      error: { message: "undefined at /srv/context/append.ts", stack: expect.stringContaining("status.test.ts") },
    });
    const status = toStatus(answer);
    expect(Buffer.from(Status.encode(status).finish()).toString()).not.toMatch(/append\.ts|TypeError|status\.test/);
  });

  test.each([
    ["a string"],
    [undefined],
    [null],
    [{ code: "NOT_FOUND", message: "plain object" }],
    [Object.assign(new Error("x"), { code: "ENOENT" })],
  ])("is INTERNAL also when it is %s", (thrown) => {
    expect(answerFor(thrown, createLog("context", { write: () => {} })).code).toBe("INTERNAL");
  });
});

describe("a status without an ErrorInfo of ours", () => {
  test.each([
    [grpcStatus.UNAVAILABLE, "UNAVAILABLE"],
    [grpcStatus.INTERNAL, "UNAVAILABLE"],
    [grpcStatus.CANCELLED, "UNAVAILABLE"],
    [grpcStatus.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"],
    [grpcStatus.UNIMPLEMENTED, "NOT_A_METHOD"],
    [grpcStatus.PERMISSION_DENIED, "FORBIDDEN"],
    [grpcStatus.DATA_LOSS, "INTERNAL"],
    [grpcStatus.UNKNOWN, "INTERNAL"],
    [77, "INTERNAL"],
  ])("%i is %s, without the transport's text", (code, expected) => {
    const error = Object.assign(new Error("connect ECONNREFUSED 10.0.0.7:7410"), {
      code,
      details: "connect ECONNREFUSED 10.0.0.7:7410",
    }) as unknown as ServiceError;
    const coded = fromServiceError(error, "context");
    expect(coded).toMatchObject({ code: expected, data: { peer: "context" }, cause: error });
    expect(coded.message).not.toContain("10.0.0.7");
  });

  test("with details that are no Status is judged by its code", () => {
    const failure = toFailure(codedError("NOT_FOUND", "x"));
    failure.metadata.set("grpc-status-details-bin", Buffer.from([0xff, 0xff, 0xff]));
    expect(fromServiceError(failure as unknown as ServiceError, "context")).toMatchObject({
      code: "NOT_FOUND",
      message: "context answered NOT_FOUND",
    });
  });
});

/** Numbers that JSON text keeps and texts that are well-formed. */
function isExact(value: unknown): boolean {
  if (typeof value === "number") return !Object.is(value, -0) && (!Number.isInteger(value) || Number.isSafeInteger(value));
  if (typeof value === "string") return value.isWellFormed();
  if (Array.isArray(value)) return value.every(isExact);
  if (typeof value === "object" && value !== null)
    return Object.entries(value).every(([key, inner]) => key.isWellFormed() && isExact(inner));
  return true;
}
