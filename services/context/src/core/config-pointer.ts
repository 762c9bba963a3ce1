/** The build that `itx.config` stands for. It only moves to the same or a newer generation, whoever publishes last. */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { z } from "zod";
import type { ConfigState } from "./contract.js";
import type { Reducer } from "./reducer.js";

type Rule = z.infer<typeof itx.rewriteRuleConfigured.payload>;

export const configPointer: Reducer<ConfigState | null> = {
  initial: null,
  types: [itx.rewriteRuleConfigured.type],

  reduce(state, { offset, payload }) {
    const { source, digest, generation, modules, mainModule } = bundleOf(payload);
    if (state !== null && generation < state.generation) return state;
    return { digest, commitOid: source.commit, generation, modules, mainModule, configuredAtOffset: offset };
  },

  check(state, { payload }) {
    const { generation } = bundleOf(payload);
    if (state === null || generation >= state.generation) return;
    throw codedError("OFFSET_CONFLICT", `generation ${generation} is older than the published generation ${state.generation}`, {
      expected: state.generation,
      actual: generation,
    });
  },
};

function bundleOf(payload: unknown) {
  const [, , , [, bundle]] = (payload as Rule).target;
  return bundle;
}
