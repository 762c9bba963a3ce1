/** The loop that tells parents of births, over one shard. */
import { pause, type Timers } from "../timers.js";
import type { ChildTeller } from "./teller.js";

/** Between two looks at what was observed. */
const roundMs = 200;

export interface RunOptions {
  readonly teller: ChildTeller;
  readonly sweepMs: number;
  readonly timers: Timers;
  readonly stopping: AbortSignal;
  /** Told of every round that ended. */
  readonly onRound: () => void;
  readonly onFailure: (error: unknown) => void;
}

/** Runs until `stopping`; a round that failed is told and the next one tries again. */
export async function runTeller({ teller, sweepMs, timers, stopping, onRound, onFailure }: RunOptions): Promise<void> {
  let sweepAtMs = timers.nowMs();
  while (!stopping.aborted) {
    try {
      await teller.tellWaiting();
      if (timers.nowMs() >= sweepAtMs && !(await teller.sweep())) sweepAtMs = timers.nowMs() + sweepMs;
    } catch (error) {
      onFailure(error);
    }
    onRound();
    await pause(timers, roundMs, stopping);
  }
}
