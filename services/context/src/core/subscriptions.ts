/**
 * The subscription table: rows set and removed by `subscription-configured`, halted and resumed by the facts of their delivery.
 * Facts about a name without a row change nothing.
 */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { z } from "zod";
import type { ControlEvent, SubscriptionRow } from "./contract.js";
import type { Reducer } from "./reducer.js";

export type SubscriptionTable = Readonly<Record<string, SubscriptionRow>>;

/** Rows of one context: each is read at every load and looked at for every commit. */
export const maxSubscriptions = 1_000;

type Configured = z.infer<typeof itx.subscriptionConfigured.payload>;

export const subscriptions: Reducer<SubscriptionTable> = {
  initial: {},
  types: [itx.subscriptionConfigured.type, itx.subscriptionDeliveryHalted.type, itx.subscriptionDeliveryResumed.type],

  reduce(table, event) {
    switch (event.type) {
      case itx.subscriptionConfigured.type:
        return configured(table, event);
      case itx.subscriptionDeliveryHalted.type:
        return changed(table, event, () => ({ haltedAtOffset: event.offset }));
      default:
        return changed(table, event, ({ afterOffset }) => ({
          haltedAtOffset: null,
          resumedAtOffset: event.offset,
          resumedAfterOffset: afterOffset ?? null,
        }));
    }
  },

  check(table, event) {
    if (event.type !== itx.subscriptionConfigured.type) return;
    const { name, target } = event.payload as Configured;
    if (target === null || name in table || Object.keys(table).length < maxSubscriptions) return;
    throw codedError(
      "INVALID_INPUT",
      `the context has ${maxSubscriptions} subscriptions already; remove one before adding ${JSON.stringify(name)}`,
      { limit: maxSubscriptions },
    );
  },
};

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

/** By name, so that two processes that folded the same events store the same text. */
function sorted(table: Record<string, SubscriptionRow>): SubscriptionTable {
  return Object.fromEntries(Object.entries(table).sort(([one], [other]) => (one < other ? -1 : 1)));
}
