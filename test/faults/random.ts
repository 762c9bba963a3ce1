/** Chances that can be played again: FAULT_SEED repeats the choices of a run, though not the machine's. */
export type Random = () => number;

export function newSeed(): number {
  const given = process.env["FAULT_SEED"];
  return given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
}

/** mulberry32. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function pick<T>(random: Random, choices: readonly T[]): T {
  return choices[Math.floor(random() * choices.length)]!;
}
