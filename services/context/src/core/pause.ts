/** Whether the context takes ordinary events. */
import { itx } from "iterate/events";
import type { z } from "zod";
import type { PauseState } from "./contract.js";
import type { Reducer } from "./reducer.js";

/** Types that land in a paused context whoever writes them; records of the platform land as well. */
export const exemptFromPause: ReadonlySet<string> = new Set([itx.paused.type, itx.resumed.type]);

export const pause: Reducer<PauseState | null> = {
  initial: null,
  types: [itx.paused.type, itx.resumed.type],
  reduce(state, { type, offset, payload }) {
    if (type === itx.resumed.type) return null;
    const { reason } = payload as z.infer<typeof itx.paused.payload>;
    return { reason: reason ?? null, pausedAtOffset: offset };
  },
};
