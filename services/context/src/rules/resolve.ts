/**
 * What an expression stands for in a context: rules are followed until it starts at `itx.builtins`. The longest match answers, and of
 * equally long ones that which pins most arguments. A builtin root that a context answers by itself is an implicit rule, which a row of
 * the table comes before; only a row for `itx` itself comes after it, unless that row masks everything: then the table alone answers.
 */
import {
  argsOf,
  fillTarget,
  nameOf,
  startsAtBuiltins,
  stepsOf,
  withArgs,
  withSteps,
  type Expression,
  type Step,
} from "iterate/expression";
import { codedError, type CodedError } from "iterate/lib";
import { resolutionLimits, type Resolution, type ResolveInput, type RuleRow } from "./contract.js";
import { assertFilledSize } from "./filled-size.js";
import { formOf, indexOf, type Found, type TableIndex } from "./table-index.js";

/**
 * Follows the rules. Pure; takes about as long through a long table as through a short one.
 *
 * @throws CodedError NO_ITX_EXPRESSION_MATCH{maskedBy?}: nothing answers, a rule masks it, or rules lead in a circle; INVALID_INPUT:
 * the call does not fit the holes of a rule; EXPRESSION_TOO_LONG: what the rules make of it is over the limit. None may be retried
 * before a rule changes.
 */
export function resolve({ table, roots, isRoot, expression, caller }: ResolveInput): Resolution {
  const index = indexOf(table);
  const via: RuleRow[] = [];
  let current = expression;
  while (!startsAtBuiltins(current)) {
    const found = rowFor(index, current, (name) => roots.has(name) && (isRoot || roots.isContextRoot(name)));
    if (found === "implicit") return settled(expression, stepsOf(current), via, roots);
    if (found === undefined) throw noMatch(expression, "nothing answers", via);
    const { row } = found;
    via.push(row);
    if (row.target === null) throw noMatch(expression, "a rule masks", via, row);
    if (via.length >= resolutionLimits.depth)
      throw noMatch(expression, `${resolutionLimits.depth} rules lead to no builtin for`, via);
    current = rewritten(found, row.target, caller);
  }
  return settled(expression, stepsOf(current).slice(1), via, roots);
}

function rowFor(index: TableIndex, expression: Expression, isImplicit: (name: string) => boolean): Found | "implicit" | undefined {
  const own = index.find(expression);
  if (own !== undefined) return own;
  const { bare } = index;
  const first = expression[1];
  if (bare?.target !== null && first !== undefined && isImplicit(nameOf(first))) return "implicit";
  return bare === undefined ? undefined : { row: bare, rest: { args: null, steps: stepsOf(expression) } };
}

/** The target with the arguments of the matched call, and the steps that follow it. */
function rewritten({ row, rest }: Found, target: Expression, caller: string): Expression {
  const { holes, lastPins } = formOf(row);
  const { takesArgs, takesCaller, hasLiterals } = holes!;
  let answer = target;
  if (takesArgs || takesCaller || hasLiterals) {
    answer = fillTarget(target, { args: rest.args ?? [], caller });
    if (takesArgs) assertFilledSize(answer);
  }
  const isSpent = takesArgs || rest.args === null || isPinned(lastPins, rest.args.length, answer);
  return withSteps(isSpent ? answer : withArgs(answer, rest.args), rest.steps);
}

/** A call of which nothing is left beyond the pins, and a target that is a call: the one stands for the other. */
function isPinned(lastPins: number, left: number, target: Expression): boolean {
  return lastPins > 0 && left === 0 && typeof target.at(-1) !== "string";
}

/** At the fixed point: `steps` start with the root's. */
function settled(asked: Expression, steps: readonly Step[], via: readonly RuleRow[], roots: ResolveInput["roots"]): Resolution {
  const [first, ...rest] = steps;
  if (first === undefined) throw noMatch(asked, "nothing but a root of itx.builtins answers", via);
  const root = nameOf(first);
  if (!roots.has(root)) throw noMatch(asked, "no builtin answers", via);
  if (root !== "cd") return { kind: "builtin", root, steps, via };
  const args = argsOf(first);
  const path = args?.[0];
  if (args?.length !== 1 || typeof path !== "string")
    throw codedError("INVALID_INPUT", "itx.cd takes the path of a context, as its one argument");
  return { kind: "context", path, expression: withSteps(["itx"], rest), via };
}

/** Names what was asked for without its arguments, which may be private and are as long as they like. */
function noMatch(asked: Expression, problem: string, via: readonly RuleRow[], maskedBy?: RuleRow): CodedError {
  const through = via.length === 0 ? "" : `, through ${via.length} ${via.length === 1 ? "rule" : "rules"}`;
  return codedError("NO_ITX_EXPRESSION_MATCH", `${problem} ${namesOf(asked)} here${through}`, {
    expression: namesOf(asked),
    rules: via.length,
    ...(maskedBy === undefined ? {} : { maskedBy: namesOf(maskedBy.match), configuredAtOffset: maskedBy.configuredAtOffset }),
  });
}

/** The names of an expression: `itx.kv.get`. */
export function namesOf(expression: Expression): string {
  const names = ["itx", ...stepsOf(expression).map((step) => nameOf(step) || "()")].join(".");
  return names.length > 200 ? `${names.slice(0, 200)}…` : names;
}
