/**
 * Every limit an isolate lives under, in one table. All of them are enforced from outside the process: workerd itself enforces
 * none. The numbers are per process or per invocation as their names say, and each carries its reason.
 */
import { codedError } from "iterate/lib";

const KiB = 1024;
const MiB = 1024 * KiB;

export interface IsolateLimits {
  /** Wall time from spawn to listening, half of it as CPU; also ends a loop at module top level. */
  readonly startDeadlineMs: number;
  /** How often a process with work in flight is looked at. */
  readonly heartbeatMs: number;
  /** A process that answers no ping for this long, having burnt half of it as CPU, is looping. */
  readonly loopMs: number;
  /** A process that answers no ping for this long is ended whatever it burns; above any pause of an overloaded machine. */
  readonly hangMs: number;
  /** RLIMIT_DATA that V8 reserves before any code runs: 512 MiB does not start, 640 MiB does. */
  readonly dataFloorBytes: number;
  /** RLIMIT_DATA above that floor: what buffers and wasm memories may take. */
  readonly dataBudgetBytes: number;
  /** Resident bytes at which a process is ended; a busy honest process plateaus below 300 MiB. */
  readonly residentBytes: number;
  /** V8 old space; dies at about 205 MiB resident. */
  readonly heapMiB: number;
  readonly openFiles: number;

  /** Longest invocation; a start that asks for more, or for nothing, gets this. */
  readonly deadlineMs: number;
  /** Most host calls; a start may ask for fewer. */
  readonly hostCalls: number;
  /** Largest argument list of one host call, and largest reply: the platform's largest append fits. */
  readonly hostCallBytes: number;
  /** Argument bytes of all host calls of an invocation. */
  readonly hostCallTotalBytes: number;
  /** Host calls awaiting a reply before the session is read no further. */
  readonly hostCallsInFlight: number;
  /** Largest frame of a result. */
  readonly frameBytes: number;
  /** All frames of a result. */
  readonly outputBytes: number;
  /** Text of one log record. */
  readonly logRecordBytes: number;
  /** Text of all log records of an invocation; then one record says that the rest is cut. */
  readonly logBytes: number;
  /** Invocations a process runs at once. */
  readonly invocationsPerProcess: number;

  readonly bundleModules: number;
  readonly bundleBytes: number;
}

export const isolateLimits: IsolateLimits = {
  startDeadlineMs: 2_000,
  heartbeatMs: 50,
  loopMs: 1_500,
  hangMs: 10_000,
  dataFloorBytes: 540 * MiB,
  dataBudgetBytes: 384 * MiB,
  residentBytes: 448 * MiB,
  heapMiB: 128,
  openFiles: 256,
  deadlineMs: 600_000,
  hostCalls: 10_000,
  hostCallBytes: 16 * MiB,
  hostCallTotalBytes: 64 * MiB,
  hostCallsInFlight: 64,
  frameBytes: 16 * MiB,
  outputBytes: 64 * MiB,
  logRecordBytes: 16 * KiB,
  logBytes: 256 * KiB,
  invocationsPerProcess: 64,
  bundleModules: 512,
  bundleBytes: 32 * MiB,
};

/** What one invocation may use, after its own wishes are cut to the table. */
export interface InvocationLimits {
  readonly deadlineMs: number;
  readonly hostCalls: number;
}

/**
 * The wishes of an invocation cut to the table; 0 or absent means the table's own number.
 * @throws INVALID_INPUT for a negative or fractional wish.
 */
export function invocationLimits(wish: { deadlineMs?: number; hostCalls?: number }, limits: IsolateLimits): InvocationLimits {
  return {
    deadlineMs: atMost("deadline_ms", wish.deadlineMs, limits.deadlineMs),
    hostCalls: atMost("max_host_calls", wish.hostCalls, limits.hostCalls),
  };
}

function atMost(name: string, wished: number | undefined, most: number): number {
  if (wished === undefined || wished === 0) return most;
  if (!Number.isSafeInteger(wished) || wished < 0)
    throw codedError("INVALID_INPUT", `${name} is ${wished}; send a whole number ≥ 0.`);
  return Math.min(wished, most);
}
