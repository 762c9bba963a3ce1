/** What nobody waits for: removing blobs that nothing names, and measuring how much is still to be told. */
import type { Log } from "@iterate-platform/service/log";
import type { Metrics } from "@iterate-platform/service/metrics";
import type { Pool } from "@iterate-platform/service/postgres";
import type { BlobStore } from "./blob/blob-store.js";
import { outboxState, type OutboxState } from "./repo/ref-update.sql.js";

export interface HousekeepingParts {
  readonly db: Pool;
  readonly blobs: BlobStore;
  readonly metrics: Metrics;
  readonly log: Log;
}

const roundMs = 15_000;
/** Every how many rounds blobs are swept. */
const sweepRounds = 20;

/** Starts the rounds and answers how to end them. */
export function startHousekeeping({ db, blobs, metrics, log }: HousekeepingParts): () => void {
  let state: OutboxState = { unsettled: 0, oldestS: 0, nextDueS: undefined };
  metrics.observedGauge(
    "iterate.repo.updates.unsettled",
    { description: "Ref updates that the log was not told of yet." },
    () => state.unsettled,
  );
  metrics.observedGauge(
    "iterate.repo.updates.oldest",
    { description: "Age of the oldest ref update that the log was not told of.", unit: "s" },
    () => state.oldestS,
  );
  const removed = metrics.counter("iterate.blob.swept", { description: "Blobs removed because nothing named them." });

  let round = 0;
  let isEnded = false;
  let timer: NodeJS.Timeout;
  const run = async (): Promise<void> => {
    try {
      state = await outboxState(db);
      if (round++ % sweepRounds === 0) removed.add(await blobs.sweep());
    } catch (error) {
      log.warn("a round of housekeeping failed", { error });
    }
    if (!isEnded) timer = setTimeout(() => void run(), roundMs);
  };
  timer = setTimeout(() => void run(), roundMs);
  return () => {
    isEnded = true;
    clearTimeout(timer);
  };
}
