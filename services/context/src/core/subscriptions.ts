/**
 * The subscription table: rows set and removed by `subscription-configured`, halted and resumed by the facts of their delivery.
 * Facts about a name without a row change nothing. Events a halted row had not been delivered may be given up with the log they are
 * in; it then goes on only from a place that it is told.
 */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { z } from "zod";
import type { ControlEvent, SubscriptionRow } from "./contract.js";
import type { Reducer } from "./reducer.js";

export type SubscriptionTable = Readonly<Record<string, SubscriptionRow>>;

/** Rows of one context: each is read at every load and looked at for every commit. */
export const maxSubscriptions = 1_000;

/** Names that a refusal lists. */
const maxNamed = 10;

type Configured = z.infer<typeof itx.subscriptionConfigured.payload>;
type Resumed = z.infer<typeof itx.subscriptionDeliveryResumed.payload>;
type Truncated = z.infer<typeof itx.logTruncated.payload>;

export const subscriptions: Reducer<SubscriptionTable> = {
  initial: {},
  types: [
    itx.subscriptionConfigured.type,
    itx.subscriptionDeliveryHalted.type,
    itx.subscriptionDeliveryResumed.type,
    itx.logTruncated.type,
  ],

  reduce(table, event) {
    switch (event.type) {
      case itx.subscriptionConfigured.type:
        return configured(table, event);
      case itx.subscriptionDeliveryHalted.type:
        return changed(table, event, () => ({ haltedAtOffset: event.offset }));
      case itx.logTruncated.type:
        return truncated(table, event.payload as Truncated);
      default:
        return changed(table, event, ({ afterOffset }) => ({
          haltedAtOffset: null,
          resumedAtOffset: event.offset,
          resumedAfterOffset: afterOffset ?? null,
          missedBelow: null,
        }));
    }
  },

  check(table, { type, offset, payload }) {
    switch (type) {
      case itx.subscriptionConfigured.type:
        return checkRoom(table, payload as Configured);
      case itx.subscriptionDeliveryResumed.type:
        checkPlace(table, payload as Resumed, offset - 1);
        return checkNothingMissed(table, payload as Resumed);
      case itx.logTruncated.type:
        return checkKnown(table, payload as Truncated);
    }
  },
};

function checkRoom(table: SubscriptionTable, { name, target }: Configured): void {
  if (target === null || name in table || Object.keys(table).length < maxSubscriptions) return;
  throw codedError(
    "INVALID_INPUT",
    `the context has ${maxSubscriptions} subscriptions already; remove one before adding ${JSON.stringify(name)}`,
    { limit: maxSubscriptions },
  );
}

/** A resume that nobody would hear of, or that would wait for events to come, is a slip of who wrote it. */
function checkPlace(table: SubscriptionTable, { name, afterOffset = 0 }: Resumed, headOffset: number): void {
  if (!Object.hasOwn(table, name))
    throw codedError("NOT_FOUND", `this context has no subscription ${JSON.stringify(name)}; it has ${namesOf(table)}`, { name });
  if (afterOffset <= headOffset) return;
  throw codedError(
    "INVALID_INPUT",
    `the head of this context is at offset ${headOffset}; ${JSON.stringify(name)} cannot go on after ${afterOffset}`,
    { field: "afterOffset", headOffset },
  );
}

function namesOf(table: SubscriptionTable): string {
  const names = Object.keys(table).map((name) => JSON.stringify(name));
  if (names.length === 0) return "none: is it another context?";
  const more = names.length - maxNamed;
  return names.slice(0, maxNamed).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** What was missed is not stepped over silently. */
function checkNothingMissed(table: SubscriptionTable, { name, afterOffset }: Resumed): void {
  const missedBelow = Object.hasOwn(table, name) ? table[name]!.missedBelow : null;
  if (missedBelow === null || afterOffset !== undefined) return;
  throw codedError(
    "OFFSET_TRUNCATED",
    `events that ${JSON.stringify(name)} had not been delivered are gone; resume it with afterOffset ${missedBelow - 1} or later`,
    { firstOffset: missedBelow },
  );
}

/** A decision to give events up stands only if every row that could need them was known to it. */
function checkKnown(table: SubscriptionTable, { decidedAtOffset }: Truncated): void {
  const newer = Object.values(table).find(
    ({ configuredAtOffset, resumedAtOffset }) => Math.max(configuredAtOffset, resumedAtOffset ?? 0) > decidedAtOffset,
  );
  if (newer === undefined) return;
  throw codedError("OFFSET_CONFLICT", `the subscription ${JSON.stringify(newer.name)} changed after offset ${decidedAtOffset}`, {
    decidedAtOffset,
  });
}

function configured(table: SubscriptionTable, { offset, payload }: ControlEvent): SubscriptionTable {
  const { name, target, consumes, afterOffset, ifConfiguredAtOffset } = payload as Configured;
  const held = Object.hasOwn(table, name) ? table[name] : undefined;
  if (target === null) {
    if (held === undefined || (ifConfiguredAtOffset !== undefined && ifConfiguredAtOffset !== held.configuredAtOffset))
      return table;
    const { [name]: _, ...rest } = table;
    return rest;
  }
  const row: SubscriptionRow = {
    name,
    target,
    consumes: consumes ?? [],
    afterOffset: afterOffset ?? offset,
    configuredAtOffset: offset,
    haltedAtOffset: null,
    resumedAtOffset: null,
    resumedAfterOffset: null,
    missedBelow: null,
  };
  return sorted({ ...table, [name]: row });
}

function changed(
  table: SubscriptionTable,
  { payload }: ControlEvent,
  change: (payload: { name: string; afterOffset?: number | undefined }) => Partial<SubscriptionRow>,
): SubscriptionTable {
  const fact = payload as { name: string; afterOffset?: number | undefined };
  const held = Object.hasOwn(table, fact.name) ? table[fact.name] : undefined;
  return held === undefined ? table : { ...table, [fact.name]: { ...held, ...change(fact) } };
}

function truncated(table: SubscriptionTable, { firstOffset, undelivered }: Truncated): SubscriptionTable {
  const missed = undelivered.filter((name) => Object.hasOwn(table, name));
  if (missed.length === 0) return table;
  return { ...table, ...Object.fromEntries(missed.map((name) => [name, { ...table[name]!, missedBelow: firstOffset }])) };
}

/** By name, so that two processes that folded the same events store the same text. */
function sorted(table: Record<string, SubscriptionRow>): SubscriptionTable {
  return Object.fromEntries(Object.entries(table).sort(([one], [other]) => (one < other ? -1 : 1)));
}
