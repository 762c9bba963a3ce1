/** `subscriptions`: who is told of the events of a context. */
import { group, method } from "@iterate-platform/service/capability";
import { itx } from "iterate/events";
import { printTarget, toTarget } from "iterate/expression";
import { codedError } from "iterate/lib";
import { z } from "zod";
import type { SubscriptionRow } from "../../core/contract.js";
import { readableCore, type Heads } from "../../log/confirm.js";
import type { ContextAddress } from "../../log/contract.js";
import { expressionForm, none, oneName } from "../arguments.js";
import type { BuiltinCall, ContextRoot } from "../contract.js";
import { present, record } from "../record.js";

const offset = z.int().nonnegative();

const types = `interface SubscriptionRow {
  name: string;
  /** What receives the events, as text. */
  target: string;
  /** Types delivered; empty means every event. */
  consumes: string[];
  afterOffset: number;
  /** Offset of the event that made the row. */
  configuredAtOffset: number;
  /** Offset of the fact that halted delivery; null while it runs. */
  haltedAtOffset: number | null;
}
interface SubscriptionInput {
  /** Letters, digits, _ and -. */
  name: string;
  /** An expression, as text or parsed: itx.config, say. */
  target: string | unknown[];
  consumes?: string[];
  /** Delivery starts after this offset; absent, with what comes. */
  afterOffset?: number;
}`;

export function subscriptionsRoot(heads: Heads): ContextRoot {
  const rowsOf = async (address: ContextAddress): Promise<Readonly<Record<string, SubscriptionRow>>> => {
    const head = await heads.confirm(address);
    return head === undefined ? {} : readableCore(head).subscriptions;
  };
  return {
    name: "subscriptions",
    isContextRoot: true,
    description: "Says who is delivered the events of the context.",
    instructions:
      "A subscription delivers events, in order and at least once, to what its target names. Setting a name again replaces its row. After " +
      "15 failures delivery halts until it is resumed. Names are letters, digits, _ and -.",
    types,
    member: group<BuiltinCall>({
      list: method(
        none,
        {
          signature: "() => Promise<SubscriptionRow[]>",
          description: "All rows, by name.",
          example: "itx.subscriptions.list()",
          effect: "read",
        },
        async ({ address }: BuiltinCall) => Object.values(await rowsOf(address)).map(told),
      ),
      get: method(
        oneName,
        {
          signature: "(name: string) => Promise<SubscriptionRow | null>",
          description: "The row of a name; null when there is none.",
          example: 'itx.subscriptions.get("config")',
          effect: "read",
        },
        async ({ address }: BuiltinCall, name) => {
          const rows = await rowsOf(address);
          return Object.hasOwn(rows, name) ? told(rows[name]!) : null;
        },
      ),
      set: method(
        z.tuple([
          z.strictObject({
            name: z.string(),
            target: expressionForm,
            consumes: z.array(z.string()).optional(),
            afterOffset: offset.optional(),
          }),
        ]),
        {
          signature: "(row: SubscriptionInput) => Promise<{name: string; configuredAtOffset: number}>",
          description: "Makes a row, or replaces the one of its name.",
          example: 'itx.subscriptions.set({name: "orders", target: "itx.config", consumes: ["acme/order-placed"]})',
          effect: "write",
        },
        async (call: BuiltinCall, { target, ...row }) => ({
          name: row.name,
          configuredAtOffset: await record(call, itx.subscriptionConfigured, present({ ...row, target: toTarget(target) })),
        }),
      ),
      remove: method(
        z.tuple([z.string(), z.strictObject({ ifConfiguredAtOffset: offset.optional() }).optional()]),
        {
          signature: "(name: string, options?: {ifConfiguredAtOffset?: number}) => Promise<{removed: boolean}>",
          description: "Takes a row away, with ifConfiguredAtOffset only the one that event made.",
          example: 'itx.subscriptions.remove("orders")',
          effect: "write",
        },
        async (call: BuiltinCall, name, options) => {
          const before = await rowsOf(call.address);
          if (!Object.hasOwn(before, name)) return { removed: false };
          await record(call, itx.subscriptionConfigured, present({ name, target: null, ...options }));
          const after = await rowsOf(call.address);
          return { removed: !Object.hasOwn(after, name) };
        },
      ),
      resume: method(
        z.tuple([z.string(), z.strictObject({ afterOffset: offset.optional() }).optional()]),
        {
          signature: "(name: string, options?: {afterOffset?: number}) => Promise<{resumedAtOffset: number}>",
          description: "Goes on with a halted delivery, where it stopped or after an offset.",
          example: 'itx.subscriptions.resume("orders")',
          effect: "write",
        },
        async (call: BuiltinCall, name, options) => {
          if (!Object.hasOwn(await rowsOf(call.address), name))
            throw codedError("NOT_FOUND", `this context has no subscription ${JSON.stringify(name)}`, { name });
          return { resumedAtOffset: await record(call, itx.subscriptionDeliveryResumed, present({ name, ...options })) };
        },
      ),
    }),
  };
}

function told({ name, target, consumes, afterOffset, configuredAtOffset, haltedAtOffset }: SubscriptionRow) {
  return { name, target: printTarget(toTarget(target)), consumes, afterOffset, configuredAtOffset, haltedAtOffset };
}
