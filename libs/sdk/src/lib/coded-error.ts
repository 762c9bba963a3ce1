/**
 * The one error type of the platform and its closed list of codes. Nothing classifies a failure by message or class name: the
 * code decides, and it is the same in a gRPC ErrorInfo, an HTTP problem, an event payload and an `Error` thrown in project code.
 */

/** How a caller should take a failure; decides transport statuses and whether a retry can help. */
export type ErrorKind = "refused" | "conflict" | "unavailable" | "overloaded" | "failed";

export interface ErrorCodeInfo {
  readonly kind: ErrorKind;
  /** gRPC status code number. */
  readonly grpc: number;
  /** HTTP status. */
  readonly http: number;
  /** What happened and what to do, one sentence. */
  readonly description: string;
}

const refused = (description: string, grpc = 3, http = 400): ErrorCodeInfo => ({ kind: "refused", grpc, http, description });
const conflict = (description: string, grpc = 9, http = 409): ErrorCodeInfo => ({ kind: "conflict", grpc, http, description });

/** Every code that may cross a boundary. Adding one is a public change; the reference page is generated from here. */
export const errorCodes = {
  INVALID_INPUT: refused("A field has a value the method does not take; the message names it."),
  INVALID_JSON: refused("A body is not well-formed UTF-8 JSON, or repeats a key in one object."),
  INVALID_CONTEXT: refused("A context path or owner is not well-formed."),
  EVENT_TOO_LARGE: refused("One event's body is over the published limit; send less or refer to a blob.", 3, 413),
  BATCH_TOO_LARGE: refused("One append holds more events or bytes than the published limit; split it.", 3, 413),
  IDEMPOTENCY_CONFLICT: conflict("The idempotency key already names an event with another body.", 6),
  OFFSET_CONFLICT: conflict("The expected offset is not the next one; read the head and decide again."),
  STALE_EPOCH: conflict("A newer owner of the partition has written to this context; stop working on it."),
  STREAM_PAUSED: conflict("The context is paused and takes no event of this type until it is resumed."),
  LOOP_LIMIT: refused("The chain of reactions is too deep; nothing further may act on it.", 9, 508),
  WAIT_TIMEOUT: { kind: "unavailable", grpc: 4, http: 504, description: "No matching event arrived in time; wait again." },
  OFFSET_TRUNCATED: refused("The offset is below what the context keeps; start at the first kept offset.", 11, 410),
  UNAUTHENTICATED: refused("The call carries no valid credential.", 16, 401),
  INVALID_CREDENTIALS: refused("The credential shown is not valid.", 16, 401),
  INVALID_SIGNATURE: refused("The signature does not match the raw body.", 16, 401),
  FORBIDDEN: refused("The caller may not do this.", 7, 403),
  NOT_FOUND: refused("Nothing has this name.", 5, 404),
  ALREADY_EXISTS: conflict("The name is taken.", 6),
  PROJECT_NAME_TAKEN: conflict("Another project has this slug; choose another.", 6),
  NOT_A_METHOD: refused("The surface has no method of this name.", 12, 404),
  SECRET_NOT_SET: refused("No secret has been set under this path.", 9, 409),
  NOT_FAST_FORWARD: conflict("The branch moved on; fetch, merge and push again."),
  NO_FACET: refused("The context hosts no facet of this name.", 5, 404),
  REDUCE_CHECKPOINT_TOO_LARGE: refused("The processor's state is over the published limit; keep less.", 3, 413),
  EVENT_UNREADABLE: { kind: "failed", grpc: 15, http: 500, description: "A stored event cannot be read; read after its offset." },
  BUILD_FAILED: refused("The sources do not build; the message names file and line.", 3, 422),
  ISOLATE_CPU: refused("The code held the processor without answering and was ended.", 8, 500),
  ISOLATE_MEMORY: refused("The code used more memory than its limit and was ended.", 8, 500),
  ISOLATE_DEADLINE: refused("The code did not finish within its deadline.", 4, 504),
  ISOLATE_START: refused("The code does not load; the message holds the reason.", 3, 500),
  ISOLATE_OUTPUT: refused("The code answered something the platform does not take.", 3, 500),
  ISOLATE_LOST: { kind: "unavailable", grpc: 14, http: 503, description: "The process ended for a reason of another call; retry." },
  QUOTA: refused("The invocation made more calls or output than it may.", 8, 429),
  EGRESS_DENIED: refused("The project's policy does not allow this destination.", 7, 403),
  PERMANENT_FAILURE: refused("The code says that a retry cannot help.", 9, 422),
  CODE_FAILED: refused("The project's code threw; the message and stack are its own.", 2, 500),
  UNAVAILABLE: { kind: "unavailable", grpc: 14, http: 503, description: "A dependency is away; retry after the hint." },
  OVERLOADED: {
    kind: "overloaded",
    grpc: 8,
    http: 429,
    description: "A published limit of work in flight is reached; retry later.",
  },
  DEADLINE_EXCEEDED: {
    kind: "unavailable",
    grpc: 4,
    http: 504,
    description: "The call's deadline passed; its effect is found by its id.",
  },
  CANCELLED: refused("The caller went away.", 1, 499),
  INTERNAL: { kind: "failed", grpc: 13, http: 500, description: "A fault of the platform; it is logged with its trace." },
} as const satisfies Record<string, ErrorCodeInfo>;

export type ErrorCode = keyof typeof errorCodes;

export interface CodedErrorOptions {
  readonly data?: Readonly<Record<string, unknown>>;
  /** Milliseconds after which a retry may succeed. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

const brand = Symbol.for("iterate.CodedError");

/**
 * A failure with a code of the closed list. The message names the observed value and what to do; `data` holds its dynamic parts.
 * `isCodedError` recognises instances of other copies of this module, so project bundles and the platform understand each other.
 */
export class CodedError extends Error {
  override readonly name = "CodedError";
  readonly [brand] = true;
  readonly code: ErrorCode;
  readonly data: Readonly<Record<string, unknown>>;
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, message: string, options: CodedErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.data = options.data ?? {};
    this.retryAfterMs = options.retryAfterMs;
  }

  get kind(): ErrorKind {
    return errorCodes[this.code].kind;
  }

  /** True when the same call, with the same ids, may succeed later. */
  get retryable(): boolean {
    return this.kind === "unavailable" || this.kind === "overloaded";
  }
}

export function codedError(code: ErrorCode, message: string, data?: Readonly<Record<string, unknown>>): CodedError {
  return new CodedError(code, message, data === undefined ? {} : { data });
}

export function isCodedError(value: unknown): value is CodedError {
  return value instanceof Error && (value as { [brand]?: unknown })[brand] === true;
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(errorCodes, value);
}

/** The code of anything thrown: its own `code` when it is one of the list, else `fallback`. */
export function errorCode(thrown: unknown, fallback: ErrorCode = "INTERNAL"): ErrorCode {
  const code = thrown instanceof Error ? (thrown as { code?: unknown }).code : undefined;
  return isErrorCode(code) ? code : fallback;
}

/** Anything thrown as a CodedError: itself, the one it was before it crossed a wire as a plain `Error`, or `fallback` with it as cause. */
export function toCodedError(thrown: unknown, fallback: ErrorCode = "INTERNAL"): CodedError {
  if (isCodedError(thrown)) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const { data, retryAfterMs } = (thrown instanceof Error ? thrown : {}) as { data?: unknown; retryAfterMs?: unknown };
  return new CodedError(errorCode(thrown, fallback), message, {
    ...(typeof data === "object" && data !== null ? { data: data as Readonly<Record<string, unknown>> } : {}),
    ...(typeof retryAfterMs === "number" ? { retryAfterMs } : {}),
    cause: thrown,
  });
}
