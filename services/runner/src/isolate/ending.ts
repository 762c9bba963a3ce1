/** Why a process ended, and what each invocation it was running is told. Pure. */
import { CodedError } from "iterate/lib";
import type { IsolateLimits } from "./limits.js";

/** What the supervisor knows of an ending. `crash`: the process ended by itself. `retired`: idle, evicted or drained. */
export type Ending =
  | { readonly kind: "loop" | "hang" | "memory" | "retired" }
  | { readonly kind: "crash"; readonly exitCode: number | null; readonly signal: string | null; readonly stderr: string };

/**
 * The error of an invocation that was in flight when the process ended. Only an invocation that was alone is told what the code
 * did; with several in flight nobody outside knows whose code it was, so all are told ISOLATE_LOST, which charges nobody and is
 * safe to retry.
 */
export function endingError(ending: Ending, inFlight: number, limits: IsolateLimits): CodedError {
  const cause = endingCause(ending, limits);
  if (inFlight === 1 && cause.code !== undefined) return new CodedError(cause.code, cause.message, { data: { alone: true } });
  return new CodedError(
    "ISOLATE_LOST",
    `The process ended while it ran ${inFlight === 1 ? "this invocation" : `${inFlight} invocations`}: ${cause.message}`,
    {
      data: { alone: inFlight === 1, ...(cause.code === undefined ? {} : { reason: cause.code }) },
      retryAfterMs: 100,
    },
  );
}

interface Cause {
  readonly code?: "ISOLATE_CPU" | "ISOLATE_MEMORY";
  readonly message: string;
}

function endingCause(ending: Ending, limits: IsolateLimits): Cause {
  switch (ending.kind) {
    case "loop":
      return { code: "ISOLATE_CPU", message: `The code held the processor for ${limits.loopMs} ms without answering.` };
    case "memory":
      return tooMuchMemory(limits);
    case "hang":
      return { message: `The process did not answer for ${limits.hangMs} ms.` };
    case "retired":
      return { message: "The process was retired." };
    case "crash":
      return isOutOfMemory(ending)
        ? tooMuchMemory(limits)
        : { message: `The process ended by itself (${ending.signal ?? `exit code ${ending.exitCode}`}).` };
  }
}

function tooMuchMemory({ heapMiB, dataBudgetBytes }: IsolateLimits): Cause {
  return {
    code: "ISOLATE_MEMORY",
    message: `The code used more memory than it may: ${heapMiB} MiB of objects, ${Math.round(dataBudgetBytes / 2 ** 20)} MiB of buffers.`,
  };
}

// What V8 and its allocators print, or raise, when memory is refused.
const memoryWords = /out of memory|allocation failed|heap limit|bad_alloc|ENOMEM|Cannot allocate|<--- Last few GCs --->/i;
const abortSignals = new Set(["SIGABRT", "SIGTRAP", "SIGILL"]);

function isOutOfMemory(crash: Extract<Ending, { kind: "crash" }>): boolean {
  return memoryWords.test(crash.stderr) || (crash.signal !== null && abortSignals.has(crash.signal));
}
