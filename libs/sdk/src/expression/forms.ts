/** Expressions as people and programs give them: as text, or parsed. Each is checked and answered in its one parsed form. */
import { assertExpression, nameOf, stepsOf, type Expression } from "./expression.js";
import { assertTarget } from "./holes.js";
import { parseExpression, parseTarget } from "./parse.js";

/** A call. Throws as `parseExpression`. */
export function toExpression(given: unknown): Expression {
  if (typeof given === "string") return parseExpression(given);
  assertExpression(given);
  return given;
}

/** The target of a rule. Throws as `parseExpression`. */
export function toTarget(given: unknown): Expression {
  if (typeof given === "string") return parseTarget(given);
  assertTarget(given);
  return given;
}

/**
 * The match of a rule: its last step is a name when it pins no argument, for `itx.kv()` and `itx.kv` match alike. Throws as
 * `parseExpression`.
 */
export function toMatch(given: unknown): Expression {
  const match = toExpression(given);
  const steps = stepsOf(match);
  const last = steps.at(-1);
  if (last === undefined || typeof last === "string" || last.length > 1 || last[0] === "") return match;
  return ["itx", ...steps.slice(0, -1), nameOf(last)];
}
