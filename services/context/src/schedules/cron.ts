/**
 * Occurrences of a cron pattern in a time zone. A pattern speaks of what a clock on the wall shows, so occurrences are looked for among
 * wall times, where no day has a gap, and each is then placed in time: one that the zone skips at the end of the gap, one that it
 * repeats at the first of the two. The pattern is the library's to read, and the zone the runtime's.
 */
import { Cron } from "croner";

const hourMs = 3_600_000;
/** No zone has ever moved its clock by as much; twice that around an instant tells every offset that can concern it. */
const reachMs = 24 * hourMs;

export class CronSchedule {
  readonly #wall: Cron;
  readonly #zone: Zone;

  /** @throws RangeError, a plain sentence: what is wrong with the pattern or the zone. */
  constructor(pattern: string, timeZone: string) {
    this.#zone = zoneNamed(timeZone);
    try {
      this.#wall = new Cron(pattern, { timezone: "UTC", mode: "5-part", paused: true });
    } catch (error) {
      throw new RangeError(`${JSON.stringify(pattern)} is no cron pattern of five fields: ${reasonOf(error)}`, { cause: error });
    }
    if (!everComes(pattern)) throw new RangeError(`${JSON.stringify(pattern)} never comes`);
  }

  /** The first occurrence after an instant, milliseconds since 1970; `null` when there is none any more. */
  after(afterMs: number): number | null {
    let wallMs = this.#zone.wallOf(afterMs);
    for (;;) {
      const next = this.#wall.nextRun(new Date(wallMs));
      if (next === null) return null;
      wallMs = next.getTime();
      // In the second pass of repeated times those of the first are over.
      const at = this.#zone.instantOf(wallMs);
      if (at > afterMs) return at;
    }
  }

  /** Up to `count` of the newest occurrences in (`afterMs`, `throughMs`], oldest first. */
  latest(count: number, afterMs: number, throughMs: number): number[] {
    const walls = this.#wall.previousRuns(count, new Date(this.#zone.wallOf(throughMs) + 1));
    const instants = new Set(walls.map((wall) => this.#zone.instantOf(wall.getTime())));
    return [...instants].filter((at) => at > afterMs && at <= throughMs).sort((one, other) => one - other);
  }
}

/**
 * Whether a pattern that can be read has an occurrence: in 28 years every date meets every day of the week. Without that bound the search
 * for what never comes goes over centuries, which a caller could make this process do again and again.
 */
function everComes(pattern: string): boolean {
  if (pattern.trim().startsWith("@")) return true;
  const cycle = new Cron(`0 ${pattern} 2000-2027`, { timezone: "UTC", mode: "7-part", paused: true });
  return cycle.nextRun(new Date(Date.UTC(2000, 0, 1) - 1)) !== null;
}

/** Wall times are milliseconds since 1970 as if the zone were UTC. */
class Zone {
  readonly #format: Intl.DateTimeFormat;

  constructor(format: Intl.DateTimeFormat) {
    this.#format = format;
  }

  wallOf(ms: number): number {
    return ms + this.#offsetAt(ms);
  }

  /** The first instant at which the wall shows this time, or would have had it not been skipped: the end of the gap. */
  instantOf(wallMs: number): number {
    const [before, after] = [this.#offsetAt(wallMs - reachMs), this.#offsetAt(wallMs + reachMs)];
    const early = wallMs - Math.max(before, after);
    const late = wallMs - Math.min(before, after);
    if (this.wallOf(early) === wallMs) return early;
    if (this.wallOf(late) === wallMs) return late;
    return this.#firstAfterGap(early, late, wallMs);
  }

  /** By halves: before the end of the gap the wall shows less than a time in the gap, from there on more. */
  #firstAfterGap(early: number, late: number, wallMs: number): number {
    let [low, high] = [early, late];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.wallOf(middle) > wallMs) high = middle;
      else low = middle;
    }
    return high;
  }

  #offsetAt(ms: number): number {
    const wholeSecond = Math.floor(ms / 1_000) * 1_000;
    const fields: Record<string, number> = {};
    for (const { type, value } of this.#format.formatToParts(wholeSecond)) fields[type] = Number(value);
    const { year, month, day, hour, minute, second } = fields;
    return Date.UTC(year!, month! - 1, day, hour, minute, second) - wholeSecond;
  }
}

/** Zones asked for lately: a formatter is dear to make. */
const zones = new Map<string, Zone>();
const maxZones = 500;

function zoneNamed(name: string): Zone {
  const known = zones.get(name);
  if (known !== undefined) return known;
  // An offset is no zone: it has no rules to follow.
  if (!/^[A-Za-z]/.test(name)) throw new RangeError(`${JSON.stringify(name)} is no time zone of the IANA database`);
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: name,
      hourCycle: "h23",
      calendar: "gregory",
      numberingSystem: "latn",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch (error) {
    throw new RangeError(`${JSON.stringify(name)} is no time zone of the IANA database`, { cause: error });
  }
  const zone = new Zone(format);
  if (zones.size >= maxZones) zones.clear();
  zones.set(name, zone);
  return zone;
}

function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/^CronPattern: /, "").slice(0, 200);
}
