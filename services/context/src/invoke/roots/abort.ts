/** `abort`: lets everything go that processes remember of a context. What is stored stays. */
import { method } from "@iterate-platform/service/capability";
import { itx } from "iterate/events";
import { z } from "zod";
import type { ContextAddress } from "../../log/contract.js";
import type { BuiltinCall, ContextRoot } from "../contract.js";
import { present, record } from "../record.js";

/** @param forget drops what this process holds of a context. */
export function abortRoot(forget: (address: ContextAddress) => void): ContextRoot {
  return {
    name: "abort",
    isContextRoot: true,
    description: "Resets what is remembered of the context.",
    instructions:
      "Records events.iterate.com/itx/aborted and then drops what the process holds of the context in memory; it is folded from its log " +
      "again at the next call. The log, the state folded from it and the values of kv stay. A paused context takes it too.",
    types: "",
    member: method(
      z.tuple([z.string().max(1_024).optional()]),
      {
        signature: "(reason?: string) => Promise<{offset: number}>",
        description: "Records that the context was aborted, and resets it; answers the offset of the record.",
        example: 'itx.abort("stuck since the last deploy")',
        effect: "write",
      },
      async (call: BuiltinCall, reason) => {
        const offset = await record(call, itx.aborted, present({ reason, callerPath: call.callerPath }));
        forget(call.address);
        return { offset };
      },
    ),
  };
}
