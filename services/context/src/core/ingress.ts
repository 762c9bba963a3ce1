/** Where a project's requests go that no fetch route takes. */
import { itx } from "iterate/events";
import type { z } from "zod";
import type { IngressState } from "../routes/contract.js";
import type { Reducer } from "./reducer.js";

export const ingress: Reducer<IngressState | null> = {
  initial: null,
  types: [itx.ingressConfigured.type],
  reduce(_, { offset, payload }) {
    const { target } = payload as z.infer<typeof itx.ingressConfigured.payload>;
    return target === null ? null : { target, configuredAtOffset: offset };
  },
};
