/** The loop that fires schedules and sweeps due rows, over one shard. */
import { pause, type Timers } from "../timers.js";
import type { DueBell } from "./due-bell.js";
import type { ScheduleFirer } from "./firer.js";
import type { DueSweeper } from "./sweeper.js";

/** Longest time between two looks for what is due. */
const pollMs = 1_000;
/** Of schedules that are set one after the other many are seen by one look. */
const settleMs = 10;

export interface RunOptions {
  readonly firer: ScheduleFirer;
  readonly sweeper: DueSweeper;
  readonly bell: DueBell;
  readonly sweepMs: number;
  readonly timers: Timers;
  readonly stopping: AbortSignal;
  /** Told of every round that ended. */
  readonly onRound: () => void;
  readonly onFailure: (error: unknown) => void;
}

/** Runs until `stopping`; a round that failed is told and the next one tries again. */
export async function runSchedules(options: RunOptions): Promise<void> {
  const { firer, sweeper, bell, sweepMs, timers, stopping, onRound, onFailure } = options;
  let sweepAtMs = timers.nowMs() + sweepMs;
  while (!stopping.aborted) {
    let waitMs = pollMs;
    try {
      if (timers.nowMs() >= sweepAtMs) {
        sweepAtMs = timers.nowMs() + sweepMs;
        await sweeper.round();
      }
      const { isFull, nextInMs } = await firer.round(pollMs);
      waitMs = isFull ? 0 : Math.min(pollMs, Math.ceil(nextInMs ?? pollMs));
    } catch (error) {
      onFailure(error);
    }
    onRound();
    if (waitMs > 0 && (await bell.wait(timers, waitMs, stopping))) await pause(timers, settleMs, stopping);
  }
}
