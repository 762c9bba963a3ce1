/** A closed loop: `inFlight` calls are always under way. Answers the rate and the latencies after a warm-up. */
export interface LoadOptions {
  readonly inFlight: number;
  readonly durationMs: number;
  readonly warmUpMs: number;
  readonly call: (index: number) => Promise<unknown>;
}

export interface LoadResult {
  /** Calls made, warm-up included. */
  readonly count: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export async function runLoad({ inFlight, durationMs, warmUpMs, call }: LoadOptions): Promise<LoadResult> {
  const begin = performance.now() + warmUpMs;
  const end = begin + durationMs;
  const latencies: number[] = [];
  let index = 0;
  const worker = async (): Promise<void> => {
    for (let now = performance.now(); now < end;) {
      const started = now;
      await call(index++);
      now = performance.now();
      if (started >= begin && now <= end) latencies.push(now - started);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  latencies.sort((one, other) => one - other);
  const at = (share: number): number => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? NaN;
  return { count: index, perSecond: latencies.length / (durationMs / 1000), p50Ms: at(0.5), p99Ms: at(0.99) };
}
