/** The root `facets`: what is hosted in a context, read from outside of it. */
import { group, handleMethod, type BuiltinRoot, type CapabilityCall } from "@iterate-platform/service/capability";
import { z } from "zod";
import type { Snapshots } from "../delivery/snapshots.js";
import { maxWaitMs } from "../itx/arguments.js";

const types = `interface FacetSnapshot {
  /** Every event at or below it is in the state. */
  offset: number;
  /** Null before the processor has ended its first batch. */
  state: unknown;
}`;

export function facetsRoot(snapshots: Snapshots): BuiltinRoot<CapabilityCall> {
  return {
    name: "facets",
    isContextRoot: true,
    description: "The processors that the context hosts, by name.",
    instructions:
      "A processor has the name of the subscription that delivers to it: itx.subscriptions.list() names them. Its snapshot is its last " +
      "committed state; to read what an event you appended has made of it, wait until it has processed the offset of that event.",
    types,
    member: group<CapabilityCall>({
      get: handleMethod(
        z.tuple([z.string().min(1).max(128)]),
        {
          signature: "(name: string) => Facet",
          description: "The processor of a name; its methods throw NO_FACET when there is none.",
          example: 'itx.facets.get("orders").snapshot()',
          effect: "read",
        },
        (_call: CapabilityCall, name) => name,
        (method) => ({
          snapshot: method(
            z.tuple([]),
            {
              signature: "() => Promise<FacetSnapshot>",
              description: "The processor's last committed state, and the offset it has folded through.",
              example: 'itx.facets.get("orders").snapshot()',
              effect: "read",
            },
            ({ address }, name) => snapshots.snapshot(address, name),
          ),
          waitUntilProcessed: method(
            z.tuple([z.strictObject({ offset: z.int().nonnegative(), timeoutMs: z.int().min(1).max(maxWaitMs).optional() })]),
            {
              signature: "(args: {offset: number; timeoutMs?: number}) => Promise<{offset: number}>",
              description:
                "Answers once every event up to an offset is processed; WAIT_TIMEOUT after timeoutMs (10,000 unless told).",
              example: 'itx.facets.get("orders").waitUntilProcessed({offset: 12})',
              effect: "read",
            },
            async ({ address, signal }, name, { offset, timeoutMs }) => ({
              offset: await snapshots.waitUntilProcessed(address, name, offset, timeoutMs, signal),
            }),
          ),
        }),
      ),
    }),
  };
}
