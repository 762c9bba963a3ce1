/**
 * The append policy of a project, kept by its root context: which origins may append which types to which paths. Rules only ever
 * narrow: an append must satisfy every rule that covers it, so their order means nothing and adding one never admits more.
 */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import type { z } from "zod";
import type { AppendPolicyState, AppendRule } from "./contract.js";
import type { Reducer } from "./reducer.js";

export const appendPolicy: Reducer<AppendPolicyState | null> = {
  initial: null,
  types: [itx.appendPolicyConfigured.type],
  reduce(_, { offset, payload }) {
    const { rules } = payload as z.infer<typeof itx.appendPolicyConfigured.payload>;
    return rules === null || rules.length === 0 ? null : { rules, configuredAtOffset: offset };
  },
};

/** An append as a policy sees it. */
export interface AppendToJudge {
  /** Context whose code writes; `/` for people. */
  readonly origin: string;
  readonly isPerson: boolean;
  readonly type: string;
  /** Context written to. */
  readonly path: string;
}

/**
 * Throws FORBIDDEN when a rule keeps this origin from appending the type there. People may always change the policy itself: nobody
 * locks a project out of its own rules.
 */
export function checkAgainstPolicy({ rules, configuredAtOffset }: AppendPolicyState, append: AppendToJudge): void {
  const { origin, isPerson, type, path } = append;
  if (isPerson && type === itx.appendPolicyConfigured.type) return;
  const broken = rules.findIndex((rule) => covers(rule, type, path) && !rule.origins.some((pattern) => isMatch(pattern, origin)));
  if (broken === -1) return;
  throw codedError(
    "FORBIDDEN",
    `rule ${broken} of the project's append policy keeps ${JSON.stringify(origin)} from appending ${type} to ${JSON.stringify(path)}`,
    { rule: broken, configuredAtOffset, origin, type, path },
  );
}

function covers({ types, paths }: AppendRule, type: string, path: string): boolean {
  return types.some((pattern) => isMatch(pattern, type)) && paths.some((pattern) => isMatch(pattern, path));
}

/** An exact name, or everything that begins with what is before the `*` at the end. */
function isMatch(pattern: string, name: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}
