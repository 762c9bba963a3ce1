/** Time as the log and its live side use it: whatever waits goes through here, so that a simulation can run them by its own clock. */
export interface Timers {
  /** Monotonic milliseconds. */
  nowMs(): number;
  /** Runs `work` once, at the end of this turn of the event loop. */
  soon(work: () => void): void;
  /** Runs `work` once after `ms`, unless the answered function is called before. */
  after(ms: number, work: () => void): () => void;
}

export const realTimers: Timers = {
  nowMs: () => performance.now(),
  soon: (work) => void setImmediate(work),
  after: (ms, work) => {
    const timer = setTimeout(work, ms);
    return () => clearTimeout(timer);
  },
};

/** Resolves after `ms`, or when `signal` is aborted. */
export function pause(timers: Timers, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const end = (): void => {
      cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const cancel = timers.after(ms, end);
    signal?.addEventListener("abort", end, { once: true });
  });
}
