/** The long run counts what the promises name, the ordinary one a tenth. */
export const isLong = process.env["LONG"] === "1";

export function count(inOrdinaryRun: number): number {
  return isLong ? inOrdinaryRun * 10 : inOrdinaryRun;
}

/** Bound of one test, milliseconds. */
export const testBoundMs = isLong ? 900_000 : 180_000;
