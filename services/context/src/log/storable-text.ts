/** Whether a string can be a column: Postgres takes no NUL, UTF-8 has no lone surrogates, and indexes have a bound. */

/** What keeps `text` from being stored, as the end of a sentence; `null` when nothing does. */
export function textProblem(text: string, maxBytes: number): string | null {
  // A UTF-16 unit is at most three bytes.
  if (text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes) return `is longer than ${maxBytes} bytes`;
  if (text.includes("\0")) return "holds a NUL";
  if (!text.isWellFormed()) return "holds a lone surrogate";
  return null;
}
