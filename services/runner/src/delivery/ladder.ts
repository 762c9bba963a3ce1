/** When to try again: delays that double from a base to a cap, spread so that what failed together does not return together. */

export interface LadderTimes {
  readonly baseMs: number;
  readonly capMs: number;
}

/** For failures of code: 1 s, 2 s, 4 s … 30 min. */
export const failureLadder: LadderTimes = { baseMs: 1_000, capMs: 30 * 60_000 };

/** For what is away and comes back by itself (a service, a paused log, a target nothing answers): it costs no attempt. */
export const waitLadder: LadderTimes = { baseMs: 500, capMs: 30_000 };

/** Delay before the try after failure number `failures` (from 1): half of the rung is fixed, half random. Never above the cap. */
export function ladderDelayMs(failures: number, { baseMs, capMs }: LadderTimes, random: () => number): number {
  const rung = Math.min(capMs, baseMs * 2 ** Math.min(failures - 1, 40));
  return Math.round(rung / 2 + (rung / 2) * random());
}
