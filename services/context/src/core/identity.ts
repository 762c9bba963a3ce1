/** Who the context is: owner and path, from its first event. */
import { itx } from "iterate/events";
import type { z } from "zod";
import type { IdentityState } from "./contract.js";
import type { Reducer } from "./reducer.js";

export const identity: Reducer<IdentityState | null> = {
  initial: null,
  types: [itx.created.type],
  reduce(state, { offset, payload }) {
    if (state !== null) return state;
    const { owner, path } = payload as z.infer<typeof itx.created.payload>;
    return { owner, path, createdAtOffset: offset };
  },
};
