/** Holes that place one argument twice, in rules that follow one another, double it each time: what they make is held to a size. */
import { expressionLimits, stepsOf, type Expression, type Json } from "iterate/expression";
import { codedError } from "iterate/lib";
import { resolutionLimits } from "./contract.js";

/** @throws CodedError EXPRESSION_TOO_LONG, INVALID_INPUT: the rules make more, or something deeper, of a call than may be called. */
export function assertFilledSize(expression: Expression): void {
  let left: number = resolutionLimits.filledChars;
  const measure = (value: Json, depth: number): void => {
    left -= typeof value === "string" ? value.length + 2 : 8;
    if (left < 0)
      throw codedError("EXPRESSION_TOO_LONG", `the rules make more than ${resolutionLimits.filledChars} characters of this call`, {
        limit: resolutionLimits.filledChars,
      });
    if (value === null || typeof value !== "object") return;
    if (depth === expressionLimits.depth)
      throw codedError("INVALID_INPUT", `the rules make an argument of this call that nests more than ${depth} deep`);
    if (Array.isArray(value)) {
      for (const item of value as readonly Json[]) measure(item, depth + 1);
      return;
    }
    for (const [key, member] of Object.entries(value)) {
      left -= key.length + 3;
      measure(member, depth + 1);
    }
  };
  for (const step of stepsOf(expression)) {
    if (typeof step === "string") continue;
    for (let index = 1; index < step.length; index += 1) measure(step[index] as Json, 0);
  }
}
