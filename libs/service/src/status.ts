/**
 * Errors at the gRPC edge. A CodedError becomes `google.rpc.Status` with exactly one ErrorInfo (reason = code) and, where they fit,
 * RetryInfo and BadRequest; it comes back as the same CodedError. Anything else that is thrown is a fault of the platform: it is
 * logged under an id and leaves as INTERNAL with that id alone.
 */
import { Metadata, status as grpcStatus, type ServiceError } from "@grpc/grpc-js";
import { trace } from "@opentelemetry/api";
import { CodedError, codedError, errorCodes, isCodedError, isErrorCode, type ErrorCode } from "iterate/lib";
import type { Any } from "@iterate-platform/proto/google/protobuf/any";
import { BadRequest, ErrorInfo, RetryInfo } from "@iterate-platform/proto/google/rpc/error_details";
import { Status } from "@iterate-platform/proto/google/rpc/status";
import { uuidv7 } from "./ids.js";
import type { Log } from "./log.js";
import { redactText } from "./redact.js";

/** What a handler answers instead of a message; grpc-js takes it as an error. */
export interface GrpcFailure extends Error {
  readonly code: number;
  readonly details: string;
  readonly metadata: Metadata;
}

export const errorDomain = "iterate";

/**
 * Longest message and data in bytes. Both travel in HTTP/2 trailers, the message twice and percent-encoded: together they stay
 * below the 8 KiB that other gRPC stacks take.
 */
export const maxMessageBytes = 1_200;
export const maxDataBytes = 2_000;

/** Suggested wait when an unavailable or overloaded answer names none, in ms. */
const defaultRetryAfterMs = 1_000;

const unavailable: number = grpcStatus.UNAVAILABLE;
const invalidArgument: number = grpcStatus.INVALID_ARGUMENT;
const detailsKey = "grpc-status-details-bin";
const typePrefix = "type.googleapis.com/";

/**
 * The CodedError to answer for anything thrown: itself, or INTERNAL with the id under which the cause is logged (the trace id, when
 * there is one). Neither message, stack nor path of an unknown error leaves the process.
 */
export function answerFor(thrown: unknown, log: Log, fields: Readonly<Record<string, unknown>> = {}): CodedError {
  if (isCodedError(thrown) && isErrorCode(thrown.code)) {
    if (thrown.code === "INTERNAL") log.error("call failed", { ...fields, error: thrown });
    return thrown;
  }
  const logId = trace.getActiveSpan()?.spanContext().traceId ?? uuidv7();
  log.error("call failed", { ...fields, logId, error: thrown });
  return codedError("INTERNAL", `a fault of the platform, logged as ${logId}`, { logId });
}

/** The error as `google.rpc.Status`, for trailers and for bodies that answer item by item. */
export function toStatus(error: CodedError): Status {
  const info = errorCodes[error.code];
  const message = clip(redactText(error.message), maxMessageBytes);
  const details: Any[] = [
    any(
      "google.rpc.ErrorInfo",
      ErrorInfo.encode({ reason: error.code, domain: errorDomain, metadata: encodeData(error.data) }).finish(),
    ),
  ];
  const retryAfterMs =
    error.retryAfterMs ?? (info.grpc === unavailable || info.kind === "overloaded" ? defaultRetryAfterMs : undefined);
  if (retryAfterMs !== undefined) {
    const retryDelay = { seconds: BigInt(Math.floor(retryAfterMs / 1000)), nanos: Math.round((retryAfterMs % 1000) * 1e6) };
    details.push(any("google.rpc.RetryInfo", RetryInfo.encode(RetryInfo.fromPartial({ retryDelay })).finish()));
  }
  const field = error.data["field"];
  if (info.grpc === invalidArgument && typeof field === "string") {
    const fieldViolations = [{ field: clip(field, 200), description: clip(message, 400), reason: error.code }];
    details.push(any("google.rpc.BadRequest", BadRequest.encode(BadRequest.fromPartial({ fieldViolations })).finish()));
  }
  return { code: info.grpc, message, details };
}

/** The CodedError a Status stands for; `peer` names who answered, for statuses without an ErrorInfo of ours. */
export function fromStatus(status: Status, peer: string): CodedError {
  let code: ErrorCode | undefined;
  let data: Record<string, unknown> = {};
  let retryAfterMs: number | undefined;
  for (const detail of status.details) {
    if (detail.typeUrl === `${typePrefix}google.rpc.ErrorInfo`) {
      const info = ErrorInfo.decode(detail.value);
      if (info.domain === errorDomain && isErrorCode(info.reason)) code = info.reason;
      data = decodeData(info.metadata);
    } else if (detail.typeUrl === `${typePrefix}google.rpc.RetryInfo`) {
      const delay = RetryInfo.decode(detail.value).retryDelay;
      if (delay !== undefined) retryAfterMs = Number(delay.seconds) * 1000 + delay.nanos / 1e6;
    }
  }
  const options = { data, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  return code === undefined ? fromBare(status.code, peer, status.message) : new CodedError(code, status.message, options);
}

/** A CodedError as grpc-js answers it. */
export function toFailure(error: CodedError): GrpcFailure {
  const status = toStatus(error);
  const metadata = new Metadata();
  metadata.set(detailsKey, Buffer.from(Status.encode(status).finish()));
  return Object.assign(new Error(status.message), { code: status.code, details: status.message, metadata });
}

/** What a failed call means to the caller; `peer` names the service called. The gRPC error stays as `cause`, for logs alone. */
export function fromServiceError(error: ServiceError, peer: string): CodedError {
  const encoded = error.metadata?.get(detailsKey)[0];
  if (encoded !== undefined && typeof encoded !== "string") {
    try {
      return fromStatus(Status.decode(encoded), peer);
    } catch {
      // Not a Status: judged by its bare code below.
    }
  }
  return fromBare(error.code, peer, error);
}

/**
 * Statuses that the transport itself answers, or a server that is not ours. Their text may name addresses: it is not passed on. Our
 * servers say INTERNAL and CANCELLED with an ErrorInfo; without one they mean a connection that broke under a call.
 */
const bareCodes: Readonly<Record<number, ErrorCode>> = {
  [grpcStatus.CANCELLED]: "UNAVAILABLE",
  [grpcStatus.INTERNAL]: "UNAVAILABLE",
  [grpcStatus.INVALID_ARGUMENT]: "INVALID_INPUT",
  [grpcStatus.DEADLINE_EXCEEDED]: "DEADLINE_EXCEEDED",
  [grpcStatus.NOT_FOUND]: "NOT_FOUND",
  [grpcStatus.ALREADY_EXISTS]: "ALREADY_EXISTS",
  [grpcStatus.PERMISSION_DENIED]: "FORBIDDEN",
  [grpcStatus.RESOURCE_EXHAUSTED]: "OVERLOADED",
  [grpcStatus.ABORTED]: "UNAVAILABLE",
  [grpcStatus.UNIMPLEMENTED]: "NOT_A_METHOD",
  [grpcStatus.UNAVAILABLE]: "UNAVAILABLE",
  [grpcStatus.UNAUTHENTICATED]: "UNAUTHENTICATED",
};

function fromBare(code: number, peer: string, cause: unknown): CodedError {
  const name = grpcStatus[code] ?? String(code);
  return new CodedError(bareCodes[code] ?? "INTERNAL", `${peer} answered ${name}`, { data: { peer }, cause });
}

function any(type: string, value: Uint8Array): Any {
  return { typeUrl: `${typePrefix}${type}`, value: Buffer.from(value) };
}

/**
 * ErrorInfo metadata holds texts. A text that could be read as JSON is quoted, any other value is JSON: what was JSON comes back
 * the same. What does not fit is left out.
 */
function encodeData(data: Readonly<Record<string, unknown>>): Record<string, string> {
  const encoded: Record<string, string> = {};
  let left = maxDataBytes;
  for (const [key, value] of Object.entries(data)) {
    const text = encodeValue(value);
    if (text === undefined) continue;
    left -= Buffer.byteLength(key) + Buffer.byteLength(text) + 8;
    if (left < 0) break;
    encoded[key] = text;
  }
  return encoded;
}

function encodeValue(value: unknown): string | undefined {
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "string") {
    const text = redactText(wellFormed(value));
    return parses(text) ? JSON.stringify(text) : text;
  }
  try {
    return JSON.stringify(value, (_key, inner: unknown) => (typeof inner === "bigint" ? inner.toString() : inner));
  } catch {
    return undefined;
  }
}

function decodeData(metadata: Readonly<Record<string, string>>): Record<string, unknown> {
  const data: Record<string, unknown> = {};
  for (const [key, text] of Object.entries(metadata)) {
    const value = parses(text) ? (JSON.parse(text) as unknown) : text;
    // An integer beyond 2^53 keeps its text.
    data[key] = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) ? text : value;
  }
  return data;
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** grpc-js percent-encodes what is sent and throws on a lone surrogate. */
function wellFormed(text: string): string {
  return text.toWellFormed();
}

/** Well-formed text of at most `maxBytes` bytes. */
function clip(text: string, maxBytes: number): string {
  const whole = wellFormed(text);
  if (Buffer.byteLength(whole) <= maxBytes) return whole;
  let clipped = Buffer.from(whole)
    .subarray(0, maxBytes - 3)
    .toString("utf8");
  while (clipped.endsWith("\ufffd")) clipped = clipped.slice(0, -1);
  return `${clipped}…`;
}
