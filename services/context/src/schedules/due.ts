/** The due rows that a core state stands for. Pure. */
import type { CoreState, ScheduleRow } from "../core/contract.js";
import type { DueChange, DueTime } from "./contract.js";

type Scheduling = Pick<CoreState, "schedules" | "pause">;

const none: readonly DueChange[] = [];

/**
 * What a commit must change of the due rows so that they follow from the state after it; nothing for one that touches neither schedules
 * nor pause.
 *
 * @param firstOffset of the commit: what was set at or after it is counted from the commit's own time.
 */
export function dueChanges(before: Scheduling, after: Scheduling, firstOffset: number): readonly DueChange[] {
  const isTurned = (before.pause === null) !== (after.pause === null);
  if (before.schedules === after.schedules && !isTurned) return none;
  const changes: DueChange[] = [];
  for (const key of new Set([...Object.keys(before.schedules), ...Object.keys(after.schedules)])) {
    const [old, row] = [inForce(before, key), inForce(after, key)];
    if (row === undefined) {
      if (old !== undefined) changes.push({ key, row: null });
    } else if (row !== old || isTurned) {
      const { scheduledAtOffset } = row;
      changes.push({ key, row: { scheduledAtOffset, due: dueOf(after, row, firstOffset) } });
    }
  }
  return changes;
}

/** When a row is to be looked at. Where the state does not say when it is due, at once: whoever looks finds out. */
function dueOf({ pause }: Scheduling, { when, since, nextAtMs }: ScheduleRow, firstOffset: number): DueTime {
  if (pause !== null) return { kind: "held" };
  if (nextAtMs !== null) return { kind: "at", atMs: nextAtMs };
  if (since >= firstOffset && "afterMs" in when) return { kind: "after", afterMs: when.afterMs };
  if (since >= firstOffset && "everyMs" in when) return { kind: "after", afterMs: when.everyMs };
  return { kind: "after", afterMs: 0 };
}

/** The row of a key, unless it rests. */
export function inForce({ schedules }: Pick<CoreState, "schedules">, key: string): ScheduleRow | undefined {
  const row = Object.hasOwn(schedules, key) ? schedules[key] : undefined;
  return row?.failedAtOffset === null ? row : undefined;
}
