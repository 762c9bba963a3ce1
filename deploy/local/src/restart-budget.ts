/**
 * When to start a dead service again: at once the first time, later and later while it keeps dying, and not at all when it dies
 * too often. Pure: the caller brings the clock.
 */

const minDelayMs = 100;
const maxDelayMs = 5_000;
const windowMs = 60_000;
const maxInWindow = 10;
/** A service that ran this long is taken as healthy: its next death starts from the shortest delay. */
const healthyAfterMs = 10_000;

export class RestartBudget {
  /** @param unitMs the shortest delay, milliseconds; the longest is 50 times that. */
  constructor(readonly unitMs: number = minDelayMs) {}

  #deaths: number[] = [];
  #streak = 0;

  /**
   * Counts a death after `ranMs`.
   *
   * @returns how long to wait before the next start, milliseconds; undefined when this is the eleventh within a minute.
   */
  afterDeath(nowMs: number, ranMs: number): number | undefined {
    this.#deaths = this.#deaths.filter((at) => at > nowMs - windowMs);
    this.#deaths.push(nowMs);
    if (this.#deaths.length > maxInWindow) return undefined;
    this.#streak = ranMs >= healthyAfterMs ? 0 : this.#streak;
    return this.unitMs * Math.min(maxDelayMs / minDelayMs, 2 ** this.#streak++);
  }
}
