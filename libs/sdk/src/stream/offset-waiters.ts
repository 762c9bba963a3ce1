/** Callers that wait until a processor has come to an offset, each with its own bound. */
import { codedError } from "../lib/coded-error.js";
import type { Timers } from "./engine-ports.js";

export const defaultWaitMs = 10_000;
export const maxWaitMs = 120_000;

interface Waiter {
  readonly offset: number;
  resolve(offset: number): void;
}

export class OffsetWaiters {
  readonly #timers: Timers;
  readonly #waiting = new Set<Waiter>();

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  /** Waiters not yet answered. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Resolves with the offset reached, or rejects with WAIT_TIMEOUT after `timeoutMs` (default 10,000, at most 120,000). */
  wait(offset: number, timeoutMs = defaultWaitMs): Promise<number> {
    return new Promise((resolve, reject) => {
      const cancel = this.#timers.after(Math.min(timeoutMs, maxWaitMs), () => {
        this.#waiting.delete(waiter);
        reject(
          codedError("WAIT_TIMEOUT", `the processor did not come to offset ${offset} in ${timeoutMs} ms; wait again`, {
            offset,
            timeoutMs,
          }),
        );
      });
      const waiter: Waiter = {
        offset,
        resolve: (reached) => {
          cancel();
          this.#waiting.delete(waiter);
          resolve(reached);
        },
      };
      this.#waiting.add(waiter);
    });
  }

  /** Answers everyone who waits for `offset` or less, in the order they came. */
  reached(offset: number): void {
    for (const waiter of [...this.#waiting]) if (waiter.offset <= offset) waiter.resolve(offset);
  }
}
