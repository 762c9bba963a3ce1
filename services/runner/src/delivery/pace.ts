/**
 * How often one subscription may commit: a bucket of tokens that refills at a rate. An idle one goes at once; a busy one commits at
 * the rate, so its batches grow with its backlog.
 */
export class Pace {
  readonly #perSecond: number;
  readonly #burst: number;
  #tokens: number;
  #atMs: number;

  constructor(perSecond: number, burst: number, nowMs: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#tokens = burst;
    this.#atMs = nowMs;
  }

  /** Takes a token and answers 0, or answers the milliseconds until there is one. */
  take(nowMs: number): number {
    this.#tokens = Math.min(this.#burst, this.#tokens + ((nowMs - this.#atMs) * this.#perSecond) / 1_000);
    this.#atMs = nowMs;
    // A token that is there but for rounding counts: otherwise a caller that waited as told is told to wait again.
    if (this.#tokens > 1 - 1e-9) {
      this.#tokens -= 1;
      return 0;
    }
    return Math.ceil(((1 - this.#tokens) * 1_000) / this.#perSecond);
  }
}
