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
  /** What happened, one sentence. */
  readonly description: string;
  /** What the caller does about it, one sentence. */
  readonly remedy: string;
}

/** Statuses of a code: gRPC, HTTP. */
type Statuses = readonly [grpc: number, http: number];

const code =
  (kind: ErrorKind, [ownGrpc, ownHttp]: Statuses) =>
  (description: string, remedy: string, [grpc, http]: Statuses = [ownGrpc, ownHttp]): ErrorCodeInfo => ({
    kind,
    grpc,
    http,
    description,
    remedy,
  });
const refused = code("refused", [3, 400]);
const conflict = code("conflict", [9, 409]);
const unavailable = code("unavailable", [14, 503]);
const overloaded = code("overloaded", [8, 429]);
const failed = code("failed", [13, 500]);

/** Every code that may cross a boundary. Adding one is a public change; the reference page is generated from here. */
export const errorCodes = {
  INVALID_INPUT: refused("A field has a value the method does not take.", "Correct the field the message names."),
  INVALID_JSON: refused(
    "A body is not well-formed UTF-8 JSON, repeats a key in one object or is nested too deeply.",
    "Send a body that every JSON reader understands alike.",
  ),
  INVALID_CONTEXT: refused(
    "A context path or owner is not well-formed.",
    "Name the context by an absolute path without `.` and `..`.",
  ),
  EXPRESSION_TOO_LONG: refused(
    "An expression is over the published length or number of steps.",
    "Pass the data by reference, or take fewer steps.",
    [3, 413],
  ),
  NO_ITX_EXPRESSION_MATCH: refused(
    "Nothing answers the expression here: no rule and no builtin, or a rule masks it.",
    "Describe the context to see what it answers; ask whoever owns it for a rule.",
    [5, 404],
  ),
  RESULT_TOO_LARGE: refused(
    "The answer of a call, or one item of it, is over the published limit; what the call did is done.",
    "Ask for less: a smaller page, or one property of the answer.",
    [3, 413],
  ),
  EVENT_TOO_LARGE: refused("One event's body is over the published limit.", "Send less, or refer to a blob.", [3, 413]),
  BATCH_TOO_LARGE: refused("One append holds more events or bytes than the published limit.", "Split it.", [3, 413]),
  IDEMPOTENCY_CONFLICT: conflict(
    "The idempotency key already names an event with another body; nothing was appended.",
    "Read the event at `existingOffset`; use another key if yours is another fact.",
    [6, 409],
  ),
  OFFSET_CONFLICT: conflict("The expected offset is not the next one; nothing was appended.", "Read the head and decide again."),
  VERSION_CONFLICT: conflict(
    "The value has another version than the call names; nothing was changed.",
    "Read it and decide again.",
  ),
  STALE_EPOCH: conflict("A newer owner of the partition has written to this context.", "Stop working on it."),
  STREAM_PAUSED: conflict("The context is paused and takes no event of this type.", "Wait until it is resumed, then repeat."),
  LOOP_LIMIT: refused(
    "The chain of reactions is too deep; nothing further may act on it.",
    "Find the code that answers itself; `itx/loop-limit` names the chain.",
    [9, 508],
  ),
  SCHEDULE_LIMIT: refused(
    "The context would hold more schedules, or more bytes of them, than the published limit; nothing was appended.",
    "Cancel some, or spread them over contexts.",
    [8, 409],
  ),
  KV_LIMIT: refused(
    "A value, or all values of the context, would be over the published limit; nothing was changed.",
    "Keep less, or spread it over contexts.",
    [8, 413],
  ),
  WAIT_TIMEOUT: unavailable("No matching event arrived in time.", "Wait again, after the same offset.", [4, 504]),
  OFFSET_TRUNCATED: refused(
    "The offset is below what the context keeps.",
    "Start at `firstOffset`; what was before it is gone.",
    [11, 410],
  ),
  UNAUTHENTICATED: refused("The call carries no valid credential.", "Sign in, or send a token.", [16, 401]),
  INVALID_CREDENTIALS: refused("The credential shown is not valid.", "Get a new one.", [16, 401]),
  INVALID_SIGNATURE: refused("The signature does not match the raw body.", "Check the secret on both sides.", [16, 401]),
  FORBIDDEN: refused("The caller may not do this.", "Ask whoever may, or act as them.", [7, 403]),
  NOT_FOUND: refused("Nothing has this name.", "Check the name; list what is there.", [5, 404]),
  ALREADY_EXISTS: conflict("The name is taken.", "Use what is there, or another name.", [6, 409]),
  PROJECT_NAME_TAKEN: conflict("Another project has this slug.", "Choose another.", [6, 409]),
  NOT_A_METHOD: refused("The surface has no method of this name.", "See the reference of the surface.", [12, 404]),
  SECRET_NOT_SET: refused("No secret has been set under this path.", "Set it.", [9, 409]),
  NOT_FAST_FORWARD: conflict("The branch moved on.", "Fetch, merge and push again."),
  NO_FACET: refused("The context hosts no facet of this name.", "Check the name.", [5, 404]),
  REDUCE_CHECKPOINT_TOO_LARGE: refused("The processor's state is over the published limit.", "Keep less in it.", [3, 413]),
  EVENT_UNREADABLE: failed("A stored event cannot be read.", "Read after its `offset`, and report it.", [15, 500]),
  UPGRADE_REQUIRED: unavailable(
    "A stored event has a format newer than this release reads.",
    "Upgrade the reader to the release that wrote it.",
  ),
  BUILD_FAILED: refused("The sources do not build.", "Correct the file and line the message names.", [3, 422]),
  ISOLATE_CPU: refused("The code held the processor without answering and was ended.", "Answer, or await, sooner.", [8, 500]),
  ISOLATE_MEMORY: refused("The code used more memory than its limit and was ended.", "Hold less at a time.", [8, 500]),
  ISOLATE_DEADLINE: refused("The code did not finish within its deadline.", "Do less in one invocation.", [4, 504]),
  ISOLATE_START: refused("The code does not load.", "Correct what the message says.", [3, 500]),
  ISOLATE_OUTPUT: refused(
    "The code answered something the platform does not take.",
    "Answer JSON of the documented shape.",
    [3, 500],
  ),
  ISOLATE_LOST: unavailable("The process ended for a reason of another call.", "Repeat the same call."),
  QUOTA: refused("The invocation made more calls or output than it may.", "Do less in one invocation.", [8, 429]),
  EGRESS_DENIED: refused("The project's policy does not allow this destination.", "Have the policy changed.", [7, 403]),
  PERMANENT_FAILURE: refused(
    "The code says that a retry cannot help.",
    "Do not repeat it; the message is the code's own.",
    [9, 422],
  ),
  CODE_FAILED: refused("The project's code threw.", "Correct the code; message and stack are its own.", [2, 500]),
  UNAVAILABLE: unavailable("A dependency is away, or this process is about to end.", "Repeat the same call after the hint."),
  OVERLOADED: overloaded("A published limit of work in flight is reached.", "Repeat the same call later, and fewer at a time."),
  DEADLINE_EXCEEDED: unavailable(
    "The call's deadline passed; it may have had its effect.",
    "Repeat it with the same ids: what has landed is answered, not done again.",
    [4, 504],
  ),
  CANCELLED: refused("The caller went away.", "Nothing, or repeat it with the same ids.", [1, 499]),
  INTERNAL: failed("A fault of the platform; it is logged with its trace.", "Report it with the trace id."),
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
