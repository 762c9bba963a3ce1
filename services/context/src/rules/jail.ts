/**
 * What the rules of a context refuse of an append. Code that appends directly, by no call that went through the rules, is held to what
 * they would answer: the call must come out at the builtin as it went in. And what a jail keeps shut, people alone open.
 */
import { itx } from "iterate/events";
import { isEqualJson, isSameExpression, printExpression, type Expression } from "iterate/expression";
import { codedError, isCodedError, resolveContextPath, type CodedError } from "iterate/lib";
import type { z } from "zod";
import type { Writer } from "../caller/contract.js";
import type { ControlEvent, CoreState } from "../core/contract.js";
import { answersAllRoots, isJail } from "../core/rules.js";
import type { Resolution, RulesState, RuleTable } from "./contract.js";
import { rowOf } from "./groups.js";
import { resolve } from "./resolve.js";
import { vocabularyOfRoots } from "./roots.js";
import { ruleTable } from "./table.js";

type Ruled = Pick<CoreState, "rules" | "config" | "identity">;

/** Stands for an event: rules that change what they are given show on it. */
const append = ["append", { type: "probe" }] as const;

/** By table, which holds for one context alone. */
const refusals = new WeakMap<RuleTable, { readonly refusal: CodedError | null }>();

/** Throws NO_ITX_EXPRESSION_MATCH unless the rules of the context pass `itx.append(…)` on to its log, as it is. */
export function assertAnswersAppend(core: Ruled): void {
  if (hasNoRules(core)) return;
  const table = ruleTable(core);
  let judged = refusals.get(table);
  if (judged === undefined) refusals.set(table, (judged = { refusal: refusalOf(core, "itx.append", ["itx", append], isHere) }));
  if (judged.refusal !== null) throw judged.refusal;
}

/** Throws NO_ITX_EXPRESSION_MATCH unless the rules of the context pass `itx.cd(path).append(…)` on to that context, as it is. */
export function assertReaches(core: Ruled, path: string): void {
  if (hasNoRules(core)) return;
  const from = core.identity?.path ?? "/";
  const refusal = refusalOf(
    core,
    `itx.cd(${JSON.stringify(path)}).append`,
    ["itx", ["cd", path], append],
    (end) =>
      end.kind === "context" && resolveContextPath(from, end.path) === path && isSameExpression(end.expression, ["itx", append]),
  );
  if (refusal !== null) throw refusal;
}

function hasNoRules({ rules }: Ruled): boolean {
  return Object.keys(rules.groups).length === 0;
}

function isHere(end: Resolution): boolean {
  return end.kind === "builtin" && isEqualJson(end.steps, [append]);
}

function refusalOf(core: Ruled, name: string, expression: Expression, isThere: (end: Resolution) => boolean): CodedError | null {
  const isRoot = answersAllRoots(core.identity);
  try {
    const end = resolve({ table: ruleTable(core), roots: vocabularyOfRoots, isRoot, expression, caller: "/" });
    if (isThere(end)) return null;
  } catch (error) {
    if (!isCodedError(error)) throw error;
    if (error.code === "NO_ITX_EXPRESSION_MATCH") return error;
  }
  return codedError("NO_ITX_EXPRESSION_MATCH", `${name} stands for something else here: call it, by its rules`, {
    expression: name,
  });
}

/** Throws FORBIDDEN when the event would change a mask of a jail and nobody present asks for it: a schedule or a service is not enough. */
export function assertMayChange(rules: RulesState, { type, payload }: Omit<ControlEvent, "offset">, writer: Writer): void {
  if (type !== itx.rewriteRuleConfigured.type || writer.kind === "person" || !isJail(rules)) return;
  const { match, target } = payload as z.infer<typeof itx.rewriteRuleConfigured.payload>;
  const key = printExpression(match);
  if (target === null || rowOf(rules, key)?.target !== null) return;
  throw codedError("FORBIDDEN", `${key.slice(0, 200)} is masked in a jail; only a person opens it`, { type });
}
