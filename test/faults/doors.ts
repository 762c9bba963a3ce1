/**
 * How a client reaches the service while parts of it are broken: any pod will do, a failed call is sent again to the next one with the
 * same ids, and an error that a retry cannot cure is a finding.
 */
import { setTimeout as pause } from "node:timers/promises";
import { isCodedError } from "iterate/lib";
import type { Clients } from "../../services/context/test/context-process.js";
import type { History } from "./history.js";

/** Below the service's own patience, so that a pod that is silent is left for another. */
export const callDeadlineMs = 3_000;
const giveUpMs = 60_000;
const ladderMs = [10, 25, 50, 100, 200];

export class Doors {
  readonly #doors: readonly Clients[];
  readonly #history: History;

  constructor(doors: readonly Clients[], history: History) {
    this.#doors = doors;
    this.#history = history;
  }

  get count(): number {
    return this.#doors.length;
  }

  at(index: number): Clients {
    return this.#doors[index % this.#doors.length]!;
  }

  /** Sends until it is answered. Throws what no retry cures, and the last failure after a minute. */
  async call<T>(name: string, first: number, isOver: () => boolean, send: (clients: Clients) => Promise<T>): Promise<T> {
    const until = performance.now() + giveUpMs;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await send(this.at(first + attempt));
      } catch (error) {
        if (!this.isCurable(error) || isOver()) throw error;
        if (performance.now() > until) throw new Error(`${name} was not answered for ${giveUpMs} ms`, { cause: error });
        await pause(ladderMs[Math.min(attempt, ladderMs.length - 1)]);
      }
    }
  }

  /** Whether the same call may succeed later; counts those that may. */
  isCurable(error: unknown): boolean {
    if (!isCodedError(error) || !error.retryable) return false;
    this.#history.retried.set(error.code, (this.#history.retried.get(error.code) ?? 0) + 1);
    return true;
  }

  note(call: string, error: unknown): void {
    const [code, message] = isCodedError(error) ? [error.code, error.message] : ["none", String(error)];
    this.#history.unexpected.push({ call, code, message });
  }
}
