/** The loop that carries out what new projects owe when the first try did not, in this pod or in one that died. */
export const sweepEveryMs = 5_000;
const maxProjectsPerRound = 20;

export interface SweepOptions {
  /** Projects, or imports of them: answers how many it tried. */
  readonly projects: { sweep(limit: number): Promise<number> };
  readonly stopping: AbortSignal;
  /** Resolves after the time, or at once when the signal aborts. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Told of every round that ended. */
  readonly onRound: () => void;
  readonly onFailure: (error: unknown) => void;
}

/** Runs until `stopping`; a failed round is told and the next one tries again. */
export async function sweepProjects({ projects, stopping, pause, onRound, onFailure }: SweepOptions): Promise<void> {
  while (!stopping.aborted) {
    try {
      const tried = await projects.sweep(maxProjectsPerRound);
      onRound();
      if (tried === maxProjectsPerRound) continue;
    } catch (error) {
      onFailure(error);
    }
    await pause(sweepEveryMs, stopping);
  }
}
