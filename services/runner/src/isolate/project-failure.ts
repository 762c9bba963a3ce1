/**
 * What the project's code threw, as the platform reports it. The text comes out of an isolate: code, message, stack and data are
 * claims, cut to size, and no claim may pass for a verdict of the platform.
 */
import { CodedError, errorCodes, isErrorCode, type ErrorCode } from "iterate/lib";
import { cutText } from "./log-record.js";
import { toProjectNames, toProjectStack } from "./project-names.js";

export interface ProjectFailure {
  readonly error: CodedError;
  /** In the project's module names, at most 8 KiB; empty when none was thrown. */
  readonly stack: string;
}

const messageBytes = 4 * 1024;
const stackBytes = 8 * 1024;
const dataBytes = 16 * 1024;

/** What the platform alone may say of an invocation, a credential or a build. */
const verdicts = new Set<ErrorCode>([
  "QUOTA",
  "EGRESS_DENIED",
  "CANCELLED",
  "UNAUTHENTICATED",
  "INVALID_CREDENTIALS",
  "INVALID_SIGNATURE",
  "BUILD_FAILED",
]);

/** A code that is the project's to throw keeps its meaning; any other becomes CODE_FAILED with the claim in `data.code`. */
export function projectFailure(json: Uint8Array): ProjectFailure {
  const claim = parse(json);
  const claimed = typeof claim["code"] === "string" ? cutText(claim["code"], 100) : undefined;
  const message =
    typeof claim["message"] === "string"
      ? cutText(toProjectNames(claim["message"]), messageBytes)
      : "The code failed and did not say how.";
  const stack = typeof claim["stack"] === "string" ? cutText(toProjectStack(claim["stack"]), stackBytes) : "";
  const own = claimed !== undefined && isTheProjects(claimed) ? claimed : undefined;
  const data = { ...dataOf(claim["data"]), ...(claimed === undefined || own !== undefined ? {} : { code: claimed }) };
  return { error: new CodedError(own ?? "CODE_FAILED", message, { data }), stack };
}

function isTheProjects(code: string): code is ErrorCode {
  if (!isErrorCode(code) || code.startsWith("ISOLATE_") || verdicts.has(code)) return false;
  return errorCodes[code].kind === "refused" || errorCodes[code].kind === "conflict";
}

function parse(json: Uint8Array): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(json).toString());
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function dataOf(data: unknown): Record<string, unknown> {
  if (typeof data !== "object" || data === null || Array.isArray(data)) return {};
  return Buffer.byteLength(JSON.stringify(data)) <= dataBytes ? { ...(data as Record<string, unknown>) } : {};
}
