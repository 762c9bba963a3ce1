/**
 * Waiting for a fact: a test says what must become true and by when, never how long to sleep.
 */
import { setTimeout as pause } from "node:timers/promises";

export interface EventuallyOptions {
  /** The bound in milliseconds, 5,000 unless told. */
  timeoutMs?: number;
  /** Pause between two looks in milliseconds, 20 unless told. */
  intervalMs?: number;
}

/**
 * Calls `look` until it neither throws nor answers `false`, `null` or `undefined`, and answers what it answered. A look that
 * asserts (`expect(…)`) and answers nothing counts as held: end it with `return true`, or let it answer the value.
 *
 * @throws Error naming the bound, with the last failure as its `cause`, when the fact does not hold in time. A look that
 *   itself hangs is cut by the same bound.
 */
export async function eventually<T>(
  look: () => T | Promise<T>,
  options: EventuallyOptions = {},
): Promise<Exclude<T, false | null | undefined>> {
  const { timeoutMs = 5_000, intervalMs = 20 } = options;
  const deadline = performance.now() + timeoutMs;
  let last: unknown = new Error("it was never looked at");
  do {
    try {
      const seen = await bounded(look, Math.max(1, deadline - performance.now()));
      if (seen !== false && seen !== null && seen !== undefined) return seen as Exclude<T, false | null | undefined>;
      last = new Error(`it answered ${String(seen)}`);
    } catch (error) {
      last = error;
    }
    await pause(Math.min(intervalMs, Math.max(0, deadline - performance.now())));
  } while (performance.now() < deadline);
  const reason = last instanceof Error ? last.message : String(last);
  throw new Error(`not so within ${timeoutMs} ms: ${reason}`, { cause: last });
}

async function bounded<T>(look: () => T | Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("the look itself did not come back")), timeoutMs);
  });
  try {
    return await Promise.race([Promise.resolve(look()), late]);
  } finally {
    clearTimeout(timer);
  }
}
