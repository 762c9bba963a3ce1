/** Schedules as people and code see them: with the times they are due and what they append, which the core state does not keep. */
import { itx, newestFormat } from "iterate/events";
import type { ScheduleRow } from "../core/contract.js";
import type { ContextHead } from "../log/contract.js";
import type { ScheduleDefinition, ScheduleStore, StoredDefinition } from "./contract.js";
import { firstDue } from "./when.js";

export interface ScheduleView {
  readonly key: string;
  readonly scheduledAtOffset: number;
  readonly when: ScheduleDefinition["when"];
  readonly events: ScheduleDefinition["events"];
  /** ISO time at which it is due next; `null` while it rests. */
  readonly nextAt: string | null;
  /** Offset of the fact that a firing was refused; `null` while it is in force. */
  readonly failedAtOffset: number | null;
}

/** What `rows` of a context are, by one question to its database. */
export async function scheduleViews(
  { contextId }: Pick<ContextHead, "contextId">,
  rows: readonly ScheduleRow[],
  store: ScheduleStore,
): Promise<ScheduleView[]> {
  const offsets = new Set(rows.flatMap(({ scheduledAtOffset, since }) => [scheduledAtOffset, since]));
  const found = await store.definitions([...offsets].map((offset) => ({ contextId, offset })));
  const events = new Map(found.map((event) => [event.offset, event]));
  return rows.map((row) => {
    const { key, scheduledAtOffset, when, failedAtOffset } = row;
    const set = events.get(scheduledAtOffset);
    return {
      key,
      scheduledAtOffset,
      when,
      events: set === undefined ? [] : eventsOf(set),
      nextAt: nextOf(row, events),
      failedAtOffset,
    };
  });
}

function nextOf(
  { when, since, nextAtMs, failedAtOffset }: ScheduleRow,
  events: ReadonlyMap<number, StoredDefinition>,
): string | null {
  if (failedAtOffset !== null) return null;
  const set = events.get(since);
  const due = nextAtMs ?? (set === undefined ? null : firstDue(when, Math.ceil(set.createdAtUs / 1_000)));
  return due === null ? null : new Date(due).toISOString();
}

function eventsOf({ offset, formatVersion, payload }: StoredDefinition): ScheduleDefinition["events"] {
  const definition = newestFormat(itx.scheduleSet, { offset, formatVersion, payload: JSON.parse(payload ?? "null") });
  return (definition as ScheduleDefinition).events;
}
