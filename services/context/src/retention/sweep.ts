/** The loop that gives up the past of logs, over all shards of this process. */
import { pause, type Timers } from "../timers.js";
import type { RetentionSweeper } from "./sweeper.js";

export interface SweepOptions {
  /** One for each shard. */
  readonly sweepers: readonly RetentionSweeper[];
  readonly roundMs: number;
  readonly timers: Timers;
  readonly stopping: AbortSignal;
  /** Told of every round that ended. */
  readonly onRound: () => void;
  readonly onFailure: (error: unknown) => void;
}

/** Runs until `stopping`; a round that failed is told and the next one tries again. */
export async function sweepRetention({ sweepers, roundMs, timers, stopping, onRound, onFailure }: SweepOptions): Promise<void> {
  while (!stopping.aborted) {
    let mayBeMore = false;
    for (const sweeper of sweepers) {
      if (stopping.aborted) return;
      try {
        mayBeMore = (await sweeper.round()) || mayBeMore;
      } catch (error) {
        onFailure(error);
      }
    }
    onRound();
    if (!mayBeMore) await pause(timers, roundMs, stopping);
  }
}
