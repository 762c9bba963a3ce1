/**
 * The loop guard: code that runs because of an event writes one deeper than that event; beyond the limit nothing may act on the
 * chain any more, and the context that refused says so once.
 */
import { itx } from "iterate/events";
import { codedError, type CodedError } from "iterate/lib";
import type { Cause } from "./contract.js";

/** Deepest write of a chain of reactions. */
export const maxCauseDepth = 8;

export function isTooDeep(cause: Cause): boolean {
  return cause.depth > maxCauseDepth;
}

export function loopLimitError({ chain, depth }: Cause): CodedError {
  return codedError(
    "LOOP_LIMIT",
    `the chain ${JSON.stringify(chain)} is ${depth} reactions deep; at most ${maxCauseDepth} may act`,
    { chain, depth, limit: maxCauseDepth },
  );
}

/** The fact a context records about a chain it refused; its key makes it one for each chain. */
export function loopLimitFact(cause: Cause): { type: string; idempotencyKey: string; payload: string } {
  const { chain, depth } = cause;
  return {
    type: itx.loopLimit.type,
    idempotencyKey: `itx/loop-limit:${chain}`,
    payload: JSON.stringify({ chain, depth, error: loopLimitError(cause).message.slice(0, 1024) }),
  };
}
