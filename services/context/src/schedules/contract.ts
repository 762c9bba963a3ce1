/** What schedules are, and what firing them needs of the database. Times are milliseconds since 1970 unless their names say otherwise. */
import type { itx } from "iterate/events";
import type { z } from "zod";

export type ScheduleDefinition = z.infer<typeof itx.scheduleSet.payload>;
export type ScheduleWhen = ScheduleDefinition["when"];

/** When a due row asks to be looked at. */
export type DueTime =
  | { readonly kind: "at"; readonly atMs: number }
  /** Counted from the time of the commit that says so. */
  | { readonly kind: "after"; readonly afterMs: number }
  /** Not while the context is paused. */
  | { readonly kind: "held" };

/** One that does not depend on when it is written. */
export type SettledTime = Exclude<DueTime, { readonly kind: "after" }>;

/** What a commit changes of the due rows of its context. */
export interface DueChange {
  readonly key: string;
  /** `null` removes the row. */
  readonly row: { readonly scheduledAtOffset: number; readonly due: DueTime } | null;
}

/** A due row that this process may work on until its claim ends. */
export interface DueClaim {
  readonly contextId: number;
  readonly key: string;
  readonly scheduledAtOffset: number;
  readonly dueMs: number;
  /** Names the claim: whatever changes the row ends it. */
  readonly token: number;
}

export interface DuePage {
  readonly claims: readonly DueClaim[];
  /** The time of the look, by the database. */
  readonly nowMs: number;
  /** Until the next row is due, when that is soon. */
  readonly nextInMs: number | null;
}

/** A `schedule-set` as it is stored. */
export interface StoredDefinition {
  readonly contextId: number;
  readonly offset: number;
  readonly createdAtUs: number;
  readonly formatVersion: number;
  /** JSON texts. */
  readonly payload: string | null;
  readonly source: string;
}

/** A due row that a context ought to have. */
export interface DueRow {
  readonly contextId: number;
  readonly key: string;
  readonly scheduledAtOffset: number;
  readonly due: SettledTime;
}

/**
 * Due rows of one shard. They are hints of what the core states say, written by the commits that change those: a row that is wrong is put
 * right by whoever claims it, one that is missing by the sweep. Every call may be repeated, and raced by another process.
 */
export interface ScheduleStore {
  /** Takes up to `limit` rows that are due, the longest first; nobody else takes them for `claimMs`. Looks `aheadMs` ahead for the next. */
  claimDue(limit: number, claimMs: number, aheadMs: number): Promise<DuePage>;
  /** Ends a claim: the row is due then, or gone. Does nothing when the row has changed since it was claimed. */
  settleDue(claim: DueClaim, due: SettledTime | null): Promise<void>;
  /** The events that define schedules; one that is not there is not answered. */
  definitions(places: readonly { readonly contextId: number; readonly offset: number }[]): Promise<StoredDefinition[]>;
  /**
   * Of the next `limit` contexts after `afterContextId` that hold schedules those of which a due row is missing or held; `throughContextId` is
   * the last one looked at, `null` when there was none.
   */
  lackingDue(
    afterContextId: number,
    limit: number,
    reducerVersion: number,
  ): Promise<{ readonly contextIds: readonly number[]; readonly throughContextId: number | null }>;
  /** Adds rows that are missing, and releases held ones that are not to be; answers how many. */
  restoreDue(rows: readonly DueRow[]): Promise<number>;
}
