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
    const bundle = bundleOf(payload);
    if (bundle === null) return null;
    const { source, digest, generation, modules, mainModule } = bundle;
    if (state !== null && generation < state.generation) return state;
    return { digest, commitOid: source.commit, generation, modules, mainModule, configuredAtOffset: offset };
  },

  check(state, { payload }) {
    const bundle = bundleOf(payload);
    if (state === null || bundle === null) return;
    const { generation } = bundle;
    if (generation >= state.generation) return;
    throw codedError("OFFSET_CONFLICT", `generation ${generation} is older than the published generation ${state.generation}`, {
      expected: state.generation,
      actual: generation,
    });
  },
};

/** `null` when the rule takes the pointer away. */
function bundleOf(payload: unknown) {
  const { target } = payload as Rule;
  return target === null ? null : target[3][1];
}
