/** UTC days, by which everything is partitioned. A day is its number since 1970. */

const dayUs = 86_400_000_000n;
const dayMs = 86_400_000;

export function dayOf(ms: number): number {
  return Math.floor(ms / dayMs);
}

/** `20260131` */
export function dayName(day: number): string {
  return new Date(day * dayMs).toISOString().slice(0, 10).replaceAll("-", "");
}

/** The day of a name that `dayName` made; null for any other text. */
export function dayNamed(name: string): number | null {
  const match = /^(\d{4})(\d{2})(\d{2})$/.exec(name);
  if (match === null) return null;
  const day = dayOf(Date.UTC(Number(match[1]), Number(match[2]) - 1, Number(match[3])));
  return dayName(day) === name ? day : null;
}

/** The first microsecond of the day. */
export function dayStartUs(day: number): bigint {
  return BigInt(day) * dayUs;
}

export function dayStartMs(day: number): number {
  return day * dayMs;
}
