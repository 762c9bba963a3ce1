/**
 * Decides from outside whether a process loops, hangs or has outgrown its memory. Pure: samples in, a verdict out.
 *
 * A ping is sent only when the process has burnt CPU since it was last asked, so one that merely waits costs one read of procfs per
 * look, and one that is given little CPU by a busy machine is asked all the same. States: quiet (no ping outstanding) → asked (ping outstanding since a time and a CPU reading) → quiet on the answer.
 * While asked: `loopMs` without an answer and half of that burnt as CPU is a loop, or, when the process has grown by most of a heap
 * since it was last well, a collector at work for a heap that is full; `hangMs` without an answer is a hang, which may be the
 * machine's fault.
 */
import type { IsolateLimits } from "./limits.js";
import type { ProcessStat } from "./process-stat.js";

export type Verdict = "well" | "ping" | "loop" | "hang" | "memory";

export interface Sample extends ProcessStat {
  /** Monotonic milliseconds. */
  readonly nowMs: number;
}

type WatchdogLimits = Pick<IsolateLimits, "loopMs" | "hangMs" | "residentBytes" | "heapMiB">;

// CPU that makes a process worth asking: two clock ticks, above what an answered ping itself costs.
const noticeableCpuMs = 20;
// Share of the heap: a loop that merely makes garbage stays below it.
const muchGrowth = 0.75;

export class Watchdog {
  readonly #limits: WatchdogLimits;
  #asked: Sample | undefined;
  #last: ProcessStat;
  #askedCpuMs: number;
  /** Resident bytes when the process was last known to be well. */
  #wellBytes: number;
  #isSuspected = false;

  constructor(limits: WatchdogLimits, first: ProcessStat) {
    this.#limits = limits;
    this.#last = first;
    this.#askedCpuMs = first.cpuMs;
    this.#wellBytes = first.residentBytes;
  }

  /** `ping` asks the caller to send one and to report its answer to `answered`. */
  look(sample: Sample): Verdict {
    this.#last = sample;
    if (sample.residentBytes > this.#limits.residentBytes) return "memory";
    if (this.#asked !== undefined) return this.#unanswered(this.#asked, sample);
    if (sample.cpuMs - this.#askedCpuMs < noticeableCpuMs && !this.#isSuspected) {
      this.#wellBytes = sample.residentBytes;
      return "well";
    }
    this.#isSuspected = false;
    this.#asked = sample;
    this.#askedCpuMs = sample.cpuMs;
    return "ping";
  }

  /** Asks at the next look whatever the process burns: after a deadline nobody knows what the code still does. */
  suspect(): void {
    this.#isSuspected = true;
  }

  /** True while a ping is outstanding or due: the looks must go on. */
  get isAsking(): boolean {
    return this.#asked !== undefined || this.#isSuspected;
  }

  answered(): void {
    this.#asked = undefined;
    this.#wellBytes = this.#last.residentBytes;
  }

  #unanswered(asked: Sample, now: Sample): Verdict {
    const { loopMs, hangMs, heapMiB } = this.#limits;
    const waitedMs = now.nowMs - asked.nowMs;
    if (waitedMs >= loopMs && now.cpuMs - asked.cpuMs >= loopMs / 2) {
      return now.residentBytes - this.#wellBytes >= muchGrowth * heapMiB * 2 ** 20 ? "memory" : "loop";
    }
    return waitedMs >= hangMs ? "hang" : "well";
  }
}

/** A start is a call that has not answered: `late` past the deadline with half of it burnt, or past `hangMs` in any case. */
export function startVerdict(
  startedAt: number,
  sample: Sample,
  limits: Pick<IsolateLimits, "startDeadlineMs" | "hangMs">,
): "well" | "late" {
  const waitedMs = sample.nowMs - startedAt;
  const burnt = waitedMs >= limits.startDeadlineMs && sample.cpuMs >= limits.startDeadlineMs / 2;
  return burnt || waitedMs >= limits.hangMs ? "late" : "well";
}
