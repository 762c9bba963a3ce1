/**
 * What of a log may go. Pure. What a context wishes to give up is held by every run that was asked for there and has not ended, and by
 * every subscription that has not passed it: one whose place is not known holds everything. A subscription that has been halted for too long holds nothing any more; that it missed events is part
 * of the decision, and so of the fact.
 */
import type { CoreState, SubscriptionRow } from "../core/contract.js";
import { firstOffsetOf } from "../core/retention.js";
import { oldestOpenRun } from "../core/runs.js";
import type { SubscriptionFloor } from "./contract.js";

export interface DecisionInput {
  readonly core: CoreState;
  /** Offset of the first event that the context wishes to keep. */
  readonly wanted: number;
  readonly floors: readonly SubscriptionFloor[];
  /** Names of subscriptions that have been halted for too long. */
  readonly abandoned: ReadonlySet<string>;
}

export interface Decision {
  readonly firstOffset: number;
  /** Abandoned subscriptions that had not passed it. */
  readonly undelivered: readonly string[];
}

/** `null` when nothing may go that has not gone yet. */
export function decide({ core, wanted, floors, abandoned }: DecisionInput): Decision | null {
  const held = new Map(floors.map((floor) => [floor.name, floor]));
  const rows = Object.values(core.subscriptions).map((row) => ({ name: row.name, needs: neededBy(row, held.get(row.name)) }));
  const needed = Math.min(wanted, oldestOpenRun(core.runs) ?? wanted);
  const firstOffset = Math.min(needed, ...rows.filter(({ name }) => !abandoned.has(name)).map(({ needs }) => needs));
  if (firstOffset <= firstOffsetOf(core)) return null;
  const undelivered = rows.filter(({ name, needs }) => abandoned.has(name) && needs < firstOffset).map(({ name }) => name);
  return { firstOffset, undelivered };
}

/** Offset of the first event the row may still need. */
function neededBy({ configuredAtOffset, resumedAtOffset }: SubscriptionRow, floor: SubscriptionFloor | undefined): number {
  const isOfThisRow = floor?.configuredAt === configuredAtOffset && floor.resumedAt === (resumedAtOffset ?? 0);
  return isOfThisRow ? floor.floor + 1 : 1;
}
