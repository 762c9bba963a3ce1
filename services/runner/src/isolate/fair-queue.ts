/** A bounded queue that serves its lanes in turn, so that one project's waiting never delays another's by more than one place. */
import type { CodedError } from "iterate/lib";
import { codedError } from "iterate/lib";

interface Waiter {
  readonly resolve: () => void;
  readonly forget: () => void;
}

export interface FairQueueLimits {
  /** Most waiters in all. */
  readonly waiting: number;
  /** Longest wait in ms. */
  readonly waitMs: number;
}

export class FairQueue {
  readonly #limits: FairQueueLimits;
  /** Lanes in the order they are served next. */
  readonly #lanes = new Map<string, Waiter[]>();
  #size = 0;

  constructor(limits: FairQueueLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#size;
  }

  /**
   * Resolves when `wake` reaches this waiter.
   * @throws OVERLOADED when the queue is full or the wait too long; the signal's reason when it aborts.
   */
  wait(lane: string, signal?: AbortSignal): Promise<void> {
    if (this.#size >= this.#limits.waiting)
      return Promise.reject(overloaded(`${this.#size} invocations are waiting for a process already.`));
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    return new Promise<void>((resolve, reject) => {
      const fail = (reason: Error) => {
        this.#remove(lane, waiter);
        waiter.forget();
        reject(reason);
      };
      const aborted = () => fail(signal!.reason as Error);
      const late = setTimeout(
        () => fail(overloaded(`No process became free within ${this.#limits.waitMs} ms.`)),
        this.#limits.waitMs,
      );
      const forget = () => {
        clearTimeout(late);
        signal?.removeEventListener("abort", aborted);
      };
      const waiter: Waiter = { resolve, forget };
      signal?.addEventListener("abort", aborted, { once: true });
      const waiters = this.#lanes.get(lane);
      if (waiters === undefined) this.#lanes.set(lane, [waiter]);
      else waiters.push(waiter);
      this.#size++;
    });
  }

  /** Wakes the first waiter of the lane whose turn it is; false when nobody waits. */
  wake(): boolean {
    const next = this.#lanes.entries().next().value;
    if (next === undefined) return false;
    const [lane, waiters] = next;
    const waiter = waiters.shift()!;
    this.#size--;
    this.#lanes.delete(lane);
    if (waiters.length > 0) this.#lanes.set(lane, waiters);
    waiter.forget();
    waiter.resolve();
    return true;
  }

  #remove(lane: string, waiter: Waiter): void {
    const waiters = this.#lanes.get(lane) ?? [];
    const index = waiters.indexOf(waiter);
    if (index === -1) return;
    waiters.splice(index, 1);
    this.#size--;
    if (waiters.length === 0) this.#lanes.delete(lane);
  }
}

function overloaded(message: string): CodedError {
  return codedError("OVERLOADED", message);
}
