/** What a thrown error means to a delivery. */
import { isCodedError, toCodedError, type CodedError } from "iterate/lib";
import type { AttemptFailure, Setback } from "./charge.js";

/** The error as rows and facts keep it. Anything without a code of the list is a fault of the platform's own code. */
export function attemptFailure(thrown: unknown): AttemptFailure {
  const error = toCodedError(thrown);
  const stack = error.data["stack"];
  return { code: error.code, message: error.message, ...(typeof stack === "string" ? { stack } : {}) };
}

/**
 * What ended an attempt after its code had begun. A process that was ended charges nobody unless the attempt had it to itself;
 * `wasAlone` says that it ran in quarantine. Code cannot throw that a service is away: who says so is the platform.
 */
export function setbackOfRun(thrown: unknown, wasAlone: boolean): Setback {
  const failure = attemptFailure(thrown);
  if (failure.code === "ISOLATE_LOST") return { kind: "killed", alone: wasAlone, failure };
  if (failure.code === "ISOLATE_CPU" || failure.code === "ISOLATE_MEMORY")
    return { kind: "killed", alone: wasAlone || dataOf(thrown)["alone"] === true, failure };
  if (isCodedError(thrown) && (thrown.retryable || thrown.code === "CANCELLED")) return { kind: "away", waits: 1, failure };
  return { kind: "failed", failure };
}

/** True for what passes by itself: a service away, too much at once, a log that is paused. */
export function isPassing(thrown: unknown): thrown is CodedError {
  return isCodedError(thrown) && (thrown.retryable || thrown.code === "STREAM_PAUSED");
}

function dataOf(thrown: unknown): Readonly<Record<string, unknown>> {
  return isCodedError(thrown) ? thrown.data : {};
}
