/** The newest sealed value of the secret that a context under `/secrets` keeps. */
import { secret as events } from "iterate/events";
import type { z } from "zod";
import type { SecretState } from "./contract.js";
import type { Reducer } from "./reducer.js";

export const secret: Reducer<SecretState | null> = {
  initial: null,
  types: [events.secretSet.type],
  reduce(_, { offset, payload }) {
    const { path, urls, sealed } = payload as z.infer<typeof events.secretSet.payload>;
    return { path, urls, sealed, setAtOffset: offset };
  },
};
