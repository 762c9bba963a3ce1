/**
 * How much of its log a context keeps, and from which offset on it can be read. Events are given up by `log-truncated` alone; the wish
 * to do so, `retention-configured`, changes nothing that is there.
 */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { z } from "zod";
import type { ControlEvent, RetentionState } from "./contract.js";
import type { Reducer } from "./reducer.js";

type Configured = z.infer<typeof itx.retentionConfigured.payload>;
type Truncated = z.infer<typeof itx.logTruncated.payload>;

const keepsAll: RetentionState = { keepFrom: null, configuredAtOffset: 0, firstOffset: 1 };

export const retention: Reducer<RetentionState | null> = {
  initial: null,
  types: [itx.retentionConfigured.type, itx.logTruncated.type],
  judges: [itx.subscriptionConfigured.type, itx.subscriptionDeliveryResumed.type],

  reduce(state, { type, offset, payload }) {
    const before = state ?? keepsAll;
    if (type === itx.retentionConfigured.type)
      return { ...before, keepFrom: (payload as Configured).keepFrom, configuredAtOffset: offset };
    const { firstOffset } = payload as Truncated;
    return firstOffset <= before.firstOffset ? state : { ...before, firstOffset };
  },

  check(state, event) {
    const { firstOffset, configuredAtOffset } = state ?? keepsAll;
    if (event.type === itx.logTruncated.type) return checkTruncation(event, firstOffset, configuredAtOffset);
    if (event.type === itx.retentionConfigured.type) return;
    const { afterOffset } = event.payload as { readonly afterOffset?: number };
    if (afterOffset !== undefined && isTruncated(afterOffset, firstOffset)) throw truncatedError(afterOffset, firstOffset);
  },
};

/** Only forward, never over itself, and never against a wish that it did not know. */
function checkTruncation({ offset, payload }: ControlEvent, firstOffset: number, configuredAtOffset: number): void {
  const { firstOffset: wanted, decidedAtOffset } = payload as Truncated;
  if (wanted > firstOffset && wanted <= offset && configuredAtOffset <= decidedAtOffset) return;
  throw codedError("OFFSET_CONFLICT", `the log begins at offset ${firstOffset}; ${wanted} was decided at ${decidedAtOffset}`, {
    expected: wanted,
    actual: firstOffset,
  });
}

/** Offset of the first event that can be read. */
export function firstOffsetOf({ retention }: { readonly retention: RetentionState | null }): number {
  return retention?.firstOffset ?? 1;
}

/** Whether events after `afterOffset` are gone. 0 is no place in the log: it stands for the first event that is kept. */
export function isTruncated(afterOffset: number, firstOffset: number): boolean {
  return afterOffset > 0 && afterOffset < firstOffset - 1;
}

/** What a look below the first offset is answered. */
export function truncatedError(afterOffset: number, firstOffset: number) {
  return codedError(
    "OFFSET_TRUNCATED",
    `events after offset ${afterOffset} are gone; the context keeps those from offset ${firstOffset} on`,
    { firstOffset },
  );
}
