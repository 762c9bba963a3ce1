/** What the rules of a context refuse of an append: from code, where they mask `itx.append`; from all but people, what a jail keeps shut. */
import { itx } from "iterate/events";
import { printExpression, type Expression } from "iterate/expression";
import { codedError, errorCode, type CodedError } from "iterate/lib";
import type { z } from "zod";
import type { Writer } from "../caller/contract.js";
import type { ControlEvent, CoreState } from "../core/contract.js";
import { answersAllRoots, isJail } from "../core/rules.js";
import type { RulesState, RuleTable } from "./contract.js";
import { rowOf } from "./groups.js";
import { resolve } from "./resolve.js";
import { vocabularyOfRoots } from "./roots.js";
import { ruleTable } from "./table.js";

const append: Expression = ["itx", ["append", {}]];

/** By table, which holds for one context alone. */
const refusals = new WeakMap<RuleTable, { readonly refusal: CodedError | null }>();

/**
 * Throws NO_ITX_EXPRESSION_MATCH when the rules of a context answer nothing to `itx.append`: code then appends neither to it nor, when
 * it is the context the code runs in, anywhere else.
 */
export function assertAnswersAppend(core: Pick<CoreState, "rules" | "config" | "identity">): void {
  if (Object.keys(core.rules.groups).length === 0) return;
  const table = ruleTable(core);
  let judged = refusals.get(table);
  if (judged === undefined) refusals.set(table, (judged = { refusal: refusalOf(table, answersAllRoots(core.identity)) }));
  if (judged.refusal !== null) throw judged.refusal;
}

function refusalOf(table: RuleTable, isRoot: boolean): CodedError | null {
  try {
    resolve({ table, roots: vocabularyOfRoots, isRoot, expression: append, caller: "/" });
    return null;
  } catch (error) {
    // A rule that takes other arguments answers in its own way.
    return errorCode(error) === "NO_ITX_EXPRESSION_MATCH" ? (error as CodedError) : null;
  }
}

/** Throws FORBIDDEN when the event would change a mask of a jail and nobody present asks for it: a schedule or a service is not enough. */
export function assertMayChange(rules: RulesState, { type, payload }: Omit<ControlEvent, "offset">, writer: Writer): void {
  if (type !== itx.rewriteRuleConfigured.type || writer.kind === "person" || !isJail(rules)) return;
  const { match, target } = payload as z.infer<typeof itx.rewriteRuleConfigured.payload>;
  const key = printExpression(match);
  if (target === null || rowOf(rules, key)?.target !== null) return;
  throw codedError("FORBIDDEN", `${key.slice(0, 200)} is masked in a jail; only a person opens it`, { type });
}
