/** The build that `itx.config` stands for: the one rule that the table of rules shows and does not keep. It only moves to the same or a newer generation, whoever publishes last. */
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
    if (bundle === undefined) return state;
    if (bundle === null) return null;
    const { source, digest, generation, modules, mainModule } = bundle;
    if (state !== null && generation < state.generation) return state;
    return { digest, repo: source.repo, commitOid: source.commit, generation, modules, mainModule, configuredAtOffset: offset };
  },

  check(state, { payload }) {
    const bundle = bundleOf(payload);
    if (state === null || bundle === null || bundle === undefined) return;
    const { generation } = bundle;
    if (generation >= state.generation) return;
    throw codedError("OFFSET_CONFLICT", `generation ${generation} is older than the published generation ${state.generation}`, {
      expected: state.generation,
      actual: generation,
    });
  },
};

/** `null` when the rule takes the pointer away, `undefined` when it is another rule. */
function bundleOf(payload: unknown) {
  const { match, target } = payload as Rule;
  if (!itx.isConfigMatch(match)) return undefined;
  return target === null ? null : (target as unknown as z.infer<typeof itx.publishedCode>)[3][1];
}
