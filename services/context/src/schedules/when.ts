/**
 * When a schedule is due. Pure: every time is given. Times are milliseconds since 1970.
 *
 * Occurrences are a chain: the first follows from the time the schedule was set, each later one is named by the firing before it
 * (`nextAt`), so that what the log says never depends on a clock, or on the rules a time zone had on another day.
 */
import type { ScheduleWhen } from "./contract.js";
import { CronSchedule } from "./cron.js";

/** An occurrence that `skip` leaves out is this late. */
export const skippedAfterMs = 60_000;

/** What is to happen next of a chain. */
export interface NextFiring {
  /** When it may fire; in the future when those before were skipped. */
  readonly at: number;
  /** What follows it; `null` when nothing does. */
  readonly nextAt: number | null;
}

/**
 * The first occurrence of a schedule that was set at `setAtMs`, which may lie in the past; `null` when it has none.
 */
export function firstDue(when: ScheduleWhen, setAtMs: number): number | null {
  if ("at" in when) return Date.parse(when.at);
  if ("afterMs" in when) return setAtMs + when.afterMs;
  if ("everyMs" in when) return setAtMs + when.everyMs;
  return cronOf(when).after(setAtMs);
}

/**
 * What to do now with an occurrence that was due at `due`. Ticks of an interval, and occurrences of a pattern, that were missed meanwhile
 * come to one firing, unless the catch-up policy says otherwise; what follows is on the grid again.
 */
export function nextFiring(when: ScheduleWhen, due: number, nowMs: number): NextFiring {
  if ("at" in when || "afterMs" in when) return { at: due, nextAt: null };
  if ("everyMs" in when) {
    const missed = Math.floor(Math.max(0, nowMs - due) / when.everyMs);
    return { at: due, nextAt: due + (missed + 1) * when.everyMs };
  }
  const cron = cronOf(when);
  const { catchUp = "coalesce" } = when;
  const following = cron.after(due);
  if (following === null || following > nowMs) {
    const isLate = catchUp === "skip" && following !== null && nowMs - due > skippedAfterMs;
    return isLate ? { at: following, nextAt: cron.after(following) } : { at: due, nextAt: following };
  }
  if (catchUp === "all") {
    const missed = cron.latest(when.max!, due - 1, nowMs);
    const at = missed.length < when.max! ? due : missed[0]!;
    return { at, nextAt: cron.after(at) };
  }
  const at = catchUp === "skip" ? cron.after(nowMs - skippedAfterMs - 1) : due;
  // A pattern that has come to its end fires what it had.
  return at === null ? { at: due, nextAt: null } : { at, nextAt: cron.after(Math.max(at, nowMs)) };
}

/** Patterns used lately: reading one takes longer than asking it. */
const patterns = new Map<string, CronSchedule>();
const maxPatterns = 2_000;

/** @throws RangeError when the pattern or the zone is none. */
export function cronOf({ cron, timeZone }: { readonly cron: string; readonly timeZone: string }): CronSchedule {
  const name = `${timeZone}\0${cron}`;
  let known = patterns.get(name);
  if (known === undefined) {
    known = new CronSchedule(cron, timeZone);
    if (patterns.size >= maxPatterns) patterns.clear();
    patterns.set(name, known);
  }
  return known;
}
