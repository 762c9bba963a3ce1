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

/** The first round waits for so many others: a log that was just restored can be declared so before anything is appended to it. */
const roundsAtRest = 10;

/** Runs until `stopping`; a round that failed is told and the next one tries again. */
export async function sweepRetention({ sweepers, roundMs, timers, stopping, onRound, onFailure }: SweepOptions): Promise<void> {
  for (let rest = 0; rest < roundsAtRest && !stopping.aborted; rest += 1) {
    await pause(timers, roundMs, stopping);
    onRound();
  }
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
