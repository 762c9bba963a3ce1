/**
 * The schedules of a context: set, replaced and cancelled by key, moved on by each firing, and at rest once a firing was refused. No
 * clock is looked at: a first occurrence is counted from the time of the event that set it, whatever that was, and each firing names
 * the next. What a schedule appends stays in the event that set it; control events are kept for as long as the context is.
 */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { z } from "zod";
import type { ControlEvent, ScheduleRow } from "./contract.js";
import type { Reducer } from "./reducer.js";

export type ScheduleTable = Readonly<Record<string, ScheduleRow>>;

type Set = z.infer<typeof itx.scheduleSet.payload>;
type Cancelled = z.infer<typeof itx.scheduleCancelled.payload>;
type Fired = z.infer<typeof itx.scheduleFired.payload>;
type Failed = z.infer<typeof itx.scheduleFailed.payload>;

export const schedules: Reducer<ScheduleTable> = {
  initial: {},
  types: [itx.scheduleSet.type, itx.scheduleCancelled.type, itx.scheduleFired.type, itx.scheduleFailed.type],

  reduce(table, { type, offset, payload }) {
    switch (type) {
      case itx.scheduleSet.type:
        return sorted({ ...table, [(payload as Set).key]: rowOf(payload as Set, offset, rowIn(table, (payload as Set).key)) });
      case itx.scheduleCancelled.type: {
        const { key, ifScheduledAtOffset } = payload as Cancelled;
        const row = rowIn(table, key);
        return row === undefined || (ifScheduledAtOffset ?? row.scheduledAtOffset) !== row.scheduledAtOffset
          ? table
          : without(table, key);
      }
      case itx.scheduleFired.type: {
        const { key, nextAt } = payload as Fired;
        const row = definitionIn(table, payload as Fired);
        if (row === undefined) return table;
        return nextAt === null ? without(table, key) : { ...table, [key]: { ...row, nextAtMs: Date.parse(nextAt) } };
      }
      default: {
        const row = definitionIn(table, payload as Failed);
        return row === undefined ? table : { ...table, [row.key]: { ...row, failedAtOffset: offset } };
      }
    }
  },

  check(table, { type, payload }: ControlEvent) {
    switch (type) {
      case itx.scheduleSet.type:
        return checkRoom(table, payload as Set);
      case itx.scheduleFired.type:
        return checkDue(table, payload as Fired, (payload as Fired).since ?? (payload as Fired).at);
      case itx.scheduleFailed.type:
        return checkDue(table, payload as Failed, (payload as Failed).at);
    }
  },
};

/** Bytes of what a schedule appends, as JSON. */
function bytesOf({ events }: Set): number {
  return Buffer.byteLength(JSON.stringify(events));
}

function rowOf(set: Set, offset: number, held: ScheduleRow | undefined): ScheduleRow {
  const { key, when } = set;
  const row = { key, scheduledAtOffset: offset, when, bytes: bytesOf(set), failedAtOffset: null };
  // An interval that is set again as it is keeps its clock: who deploys every hour still gets what is due every day.
  if (held !== undefined && held.failedAtOffset === null && "everyMs" in when && "everyMs" in held.when) {
    if (held.when.everyMs === when.everyMs) return { ...row, since: held.since, nextAtMs: held.nextAtMs };
  }
  return { ...row, since: offset, nextAtMs: "at" in when ? Date.parse(when.at) : null };
}

function checkRoom(table: ScheduleTable, set: Set): void {
  const others = Object.values(table).filter(({ key }) => key !== set.key);
  const bytes = others.reduce((sum, row) => sum + row.bytes, bytesOf(set));
  const { perContext, bytesPerContext } = itx.scheduleLimits;
  if (others.length < perContext && bytes <= bytesPerContext) return;
  const held = `the context has ${others.length} schedules of ${bytes - bytesOf(set)} bytes already`;
  throw codedError(
    "SCHEDULE_LIMIT",
    `${held}; with ${JSON.stringify(set.key)} it would be over ${perContext} schedules or ${bytesPerContext} bytes`,
    { schedules: others.length, bytes, limits: { schedules: perContext, bytes: bytesPerContext } },
  );
}

/** A firing stands for an occurrence of the definition that is in force, and only for the one that is next. */
function checkDue(table: ScheduleTable, named: Pick<Fired, "key" | "scheduledAtOffset">, at: string | undefined): void {
  const row = definitionIn(table, named);
  const isNext = row?.failedAtOffset === null && (row.nextAtMs === null || at === undefined || row.nextAtMs === Date.parse(at));
  if (isNext) return;
  throw codedError(
    "OFFSET_CONFLICT",
    `the occurrence ${at ?? ""} of the schedule ${JSON.stringify(named.key)} of offset ${named.scheduledAtOffset} is not due`,
    { key: named.key, scheduledAtOffset: named.scheduledAtOffset },
  );
}

function definitionIn(
  table: ScheduleTable,
  { key, scheduledAtOffset }: Pick<Fired, "key" | "scheduledAtOffset">,
): ScheduleRow | undefined {
  const row = rowIn(table, key);
  return row?.scheduledAtOffset === scheduledAtOffset ? row : undefined;
}

function rowIn(table: ScheduleTable, key: string): ScheduleRow | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

function without(table: ScheduleTable, key: string): ScheduleTable {
  const { [key]: _, ...rest } = table;
  return rest;
}

/** By key, so that two processes that folded the same events store the same text. */
function sorted(table: Record<string, ScheduleRow>): ScheduleTable {
  return Object.fromEntries(Object.entries(table).sort(([one], [other]) => (one < other ? -1 : 1)));
}
