/** Whether an expression begins with another, and what is left of it: how a rule of the capability table is looked up. */
import { argsOf, nameOf, stepsOf, type Expression, type Json, type Step } from "./expression.js";

/** What an expression holds beyond its match. */
export interface MatchRest {
  /** Arguments of the last matched step that the match does not pin; `null` when that step is no call. */
  readonly args: readonly Json[] | null;
  /** Steps after the matched ones. */
  readonly steps: readonly Step[];
}

/**
 * Matches `expression` against `match`, step by step: names are equal, and leading arguments that a step of the match pins are equal as
 * JSON. Arguments beyond the pinned ones may stand in the last matched step alone. `null` when it does not match.
 */
export function matchExpression(match: Expression, expression: Expression): MatchRest | null {
  const wanted = match.length - 1;
  if (expression.length - 1 < wanted) return null;
  for (let index = 1; index <= wanted; index += 1)
    if (!isStepMatched(match[index] as Step, expression[index] as Step, index === wanted)) return null;
  const last = expression[wanted] as Step;
  const args = wanted === 0 || typeof last === "string" ? null : last.slice(pinsOf(match[wanted] as Step) + 1);
  return { args, steps: expression.slice(wanted + 1) };
}

function isStepMatched(wanted: Step, step: Step, isLast: boolean): boolean {
  if (typeof wanted === "string") return typeof step === "string" ? step === wanted : isLast && step[0] === wanted;
  if (typeof step === "string" || step[0] !== wanted[0]) return false;
  if (isLast ? step.length < wanted.length : step.length !== wanted.length) return false;
  for (let index = 1; index < wanted.length; index += 1) if (!isEqualJson(wanted[index] as Json, step[index] as Json)) return false;
  return true;
}

function pinsOf(step: Step): number {
  return typeof step === "string" ? 0 : step.length - 1;
}

/** How many arguments a match pins. */
export function pinnedArgs(match: Expression): number {
  return stepsOf(match).reduce((sum, step) => sum + pinsOf(step), 0);
}

/** Equality of JSON: the order of keys means nothing. */
export function isEqualJson(one: Json, other: Json): boolean {
  if (one === other) return true;
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return false;
  if (Array.isArray(one) || Array.isArray(other)) {
    if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
    return one.every((item, index) => isEqualJson(item as Json, other[index] as Json));
  }
  const [a, b] = [one, other] as readonly Readonly<Record<string, Json>>[] as [Record<string, Json>, Record<string, Json>];
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && isEqualJson(a[key]!, b[key]!));
}

/** Equality of expressions and targets. */
export function isSameExpression(one: Expression, other: Expression): boolean {
  return isEqualJson(one, other);
}

/** `expression` with `args` given to its end: folded onto its last name, or as a call of what its last call answers. */
export function withArgs(expression: Expression, args: readonly Json[]): Expression {
  const last = expression.at(-1)!;
  if (expression.length === 1 || typeof last !== "string") return [...expression, ["", ...args]];
  return ["itx", ...expression.slice(1, -1), [last, ...args]];
}

/** `expression` followed by `steps`; a call at their front calls what its last name stands for. */
export function withSteps(expression: Expression, steps: readonly Step[]): Expression {
  const [first] = steps;
  if (first === undefined) return expression;
  if (first[0] !== "" || typeof expression.at(-1) !== "string") return [...expression, ...steps];
  return [...withArgs(expression, argsOf(first) ?? []), ...steps.slice(1)];
}

/** Whether an expression names the fixed point, `itx.builtins`, at its start. */
export function startsAtBuiltins(expression: Expression): boolean {
  return expression.length > 1 && nameOf(expression[1]!) === "builtins";
}

/** Whether any step of an expression is called `builtins`: what loaded code may not spell, wherever it stands. */
export function spellsBuiltins(expression: Expression): boolean {
  return stepsOf(expression).some((step) => nameOf(step) === "builtins");
}
