/** Expressions: what names a capability and calls it, as text and as data. */
export { assertExpression, argsOf, expressionLimits, isStepName, nameOf, stepsOf } from "./expression.js";
export type { Expression, Json, Step } from "./expression.js";
export { toExpression, toMatch, toTarget } from "./forms.js";
export { assertTarget, fillTarget, hasHoles, holesOf } from "./holes.js";
export type { Filling, TargetHoles } from "./holes.js";
export {
  isEqualJson,
  isSameExpression,
  matchExpression,
  pinnedArgs,
  spellsBuiltins,
  startsAtBuiltins,
  withArgs,
  withSteps,
} from "./match.js";
export type { MatchRest } from "./match.js";
export { parseExpression, parseTarget } from "./parse.js";
export { printExpression, printJson, printTarget } from "./print.js";
