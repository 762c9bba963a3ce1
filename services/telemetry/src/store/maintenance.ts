/** The loop that makes days ahead and drops old ones. */
import type { Progress } from "@iterate-platform/service/admin";
import type { Partitions } from "./partitions.js";

export interface MaintenanceOptions {
  readonly partitions: Partitions;
  readonly stopping: AbortSignal;
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly progress: Progress;
  readonly onDropped: (partitions: number) => void;
  readonly onFailure: (error: unknown) => void;
}

const everyMs = 600_000;
const afterFailureMs = 15_000;
/** The loop may be this late before the process is unready: days are made two ahead. */
export const maintenanceBoundMs = 12 * 3_600_000;

/** Runs until `stopping` aborts; a failure is told and tried again. */
export async function maintain(options: MaintenanceOptions): Promise<void> {
  const { partitions, stopping, pause, progress, onDropped, onFailure } = options;
  while (!stopping.aborted) {
    let waitMs = everyMs;
    try {
      await partitions.ensure();
      const dropped = await partitions.dropExpired();
      if (dropped > 0) onDropped(dropped);
      progress.tick();
    } catch (error) {
      onFailure(error);
      waitMs = afterFailureMs;
    }
    await pause(waitMs, stopping);
  }
}
