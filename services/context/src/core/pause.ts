/** Whether the context takes ordinary events. */
import { itx, project } from "iterate/events";
import type { z } from "zod";
import type { PauseState } from "./contract.js";
import type { Reducer } from "./reducer.js";
import { isHeldRemoval } from "./rules.js";

/**
 * Types that land in a paused context: what pauses and resumes it, and the platform's records of what happened to it. Everything else
 * is refused from everyone: what the platform itself writes on behalf of others, a webhook or a publication, waits for the resume.
 */
const exemptTypes: ReadonlySet<string> = new Set(
  [
    itx.paused,
    itx.resumed,
    itx.created,
    itx.childCreated,
    itx.aborted,
    itx.subscriptionDeliveryHalted,
    itx.subscriptionDeliveryFailed,
    itx.loopLimit,
    itx.workFailed,
    itx.logRestored,
    itx.logTruncated,
    itx.scheduleCancelled,
    itx.scheduleFailed,
    itx.runSettled,
    itx.woken,
    project.projectImported,
  ].map(({ type }) => type),
);

/** Whether an event lands in a paused context. A rule that is let go does, and goes when the context is resumed. */
export function landsWhilePaused(type: string, control: { readonly payload: unknown } | undefined): boolean {
  return exemptTypes.has(type) || (control !== undefined && isHeldRemoval({ type, payload: control.payload }));
}

export const pause: Reducer<PauseState | null> = {
  initial: null,
  types: [itx.paused.type, itx.resumed.type],
  reduce(state, { type, offset, payload }) {
    if (type === itx.resumed.type) return null;
    const { reason } = payload as z.infer<typeof itx.paused.payload>;
    return { reason: reason ?? null, pausedAtOffset: offset };
  },
};
