/**
 * Targets of rules: expressions whose arguments may hold holes, filled when a call goes through the rule. In calls the same objects are
 * plain data.
 *
 * | text | parsed | filled with |
 * |---|---|---|
 * | `@` as an argument | `{"@":"args"}` | all arguments of the call that the match does not pin |
 * | `@` inside one | `{"@":"arg"}` | the only such argument |
 * | `{...@, a: 1}` | `{"@":"merge","with":{"a":1}}` | the only such argument, an object, under what stands beside it |
 * | `@caller` | `{"@":"caller"}` | path of the context the call started at |
 * | `{"@": 1}` | `{"@":"literal","value":{"@":1}}` | the object itself |
 *
 * The first three may stand in the last step alone.
 */
import { codedError } from "../lib/coded-error.js";
import {
  argsOf,
  assertDepth,
  assertJson,
  assertPlainObject,
  assertSteps,
  invalid,
  memberPlace,
  stepsOf,
  type Expression,
  type Json,
  type Step,
} from "./expression.js";

type Members = Readonly<Record<string, Json>>;

/** An argument of a target, taken apart. */
export type Template =
  | { readonly kind: "args" | "arg" | "caller" }
  | { readonly kind: "merge" | "object"; readonly members: Members }
  | { readonly kind: "array"; readonly items: readonly Json[] }
  | { readonly kind: "scalar"; readonly value: null | boolean | number | string };

/** Takes an argument of a valid target apart. */
export function templateOf(value: Json): Template {
  if (value === null || typeof value !== "object") return { kind: "scalar", value };
  if (Array.isArray(value)) return { kind: "array", items: value as readonly Json[] };
  const object = value as Members;
  if (!Object.hasOwn(object, "@")) return { kind: "object", members: object };
  switch (object["@"]) {
    case "merge":
      return { kind: "merge", members: object["with"] as Members };
    case "literal":
      return { kind: "object", members: object["value"] as Members };
    default:
      return { kind: object["@"] as "args" | "arg" | "caller" };
  }
}

/** @throws CodedError INVALID_INPUT naming the place, EXPRESSION_TOO_LONG: `value` is no parsed target of a rule. */
export function assertTarget(value: unknown): asserts value is Expression {
  assertSteps(value, (argument, place, step, last) => {
    assertTemplate(argument, { place, depth: 0, isLast: step === last });
  });
}

interface Where {
  readonly place: string;
  readonly depth: number;
  readonly isLast: boolean;
}

function assertTemplate(value: unknown, where: Where): void {
  const { place, depth } = where;
  if (value === null || typeof value !== "object") {
    assertJson(value, place, depth);
    return;
  }
  if (Array.isArray(value)) {
    assertDepth(depth + 1, place);
    for (let index = 0; index < value.length; index += 1)
      assertTemplate(value[index], { ...where, place: `${place}[${index}]`, depth: depth + 1 });
    return;
  }
  assertPlainObject(value, place);
  assertMembers(Object.hasOwn(value, "@") ? membersOfMarker(value, where) : value, where);
}

function assertMembers(members: Record<string, unknown> | null, where: Where): void {
  if (members === null) return;
  assertDepth(where.depth + 1, where.place);
  for (const key of Object.keys(members))
    assertTemplate(members[key], { ...where, place: memberPlace(where.place, key), depth: where.depth + 1 });
}

/** What a marker holds, to be checked as well; `null` when it holds nothing. */
function membersOfMarker(marker: Record<string, unknown>, { place, depth, isLast }: Where): Record<string, unknown> | null {
  const kind = marker["@"];
  const holder = kind === "merge" ? "with" : kind === "literal" ? "value" : null;
  if (kind === "caller" || holder !== null || kind === (depth === 0 ? "args" : "arg")) {
    if (Object.keys(marker).length !== (holder === null ? 1 : 2)) throw invalid("a hole has no other keys", place);
  } else throw invalid('an object with a key "@" is a hole or {"@":"literal","value":{…}}', place);
  if (!isLast && kind !== "caller" && kind !== "literal") throw invalid("arguments are filled in the last step alone", place);
  if (holder === null) return null;
  const held = marker[holder];
  if (typeof held !== "object" || held === null || Array.isArray(held)) throw invalid(`"${holder}" is an object`, place);
  assertPlainObject(held, memberPlace(place, holder));
  if (kind === "literal" && !Object.hasOwn(held, "@"))
    throw invalid('only an object with a key "@" is written as a literal', place);
  return held;
}

/** Which holes a target has; a rule asks once and fills for each call. */
export interface TargetHoles {
  /** True when the last step places the arguments of the call itself. */
  readonly takesArgs: boolean;
  readonly takesCaller: boolean;
  readonly hasLiterals: boolean;
}

export function holesOf(target: Expression): TargetHoles {
  const found = { takesArgs: false, takesCaller: false, hasLiterals: false };
  const look = (value: Json): void => {
    if (value === null || typeof value !== "object") return;
    const template = templateOf(value);
    switch (template.kind) {
      case "args":
      case "arg":
        found.takesArgs = true;
        return;
      case "caller":
        found.takesCaller = true;
        return;
      case "array":
        template.items.forEach(look);
        return;
      case "merge":
      case "object":
        if (template.kind === "merge") found.takesArgs = true;
        else if (template.members !== value) found.hasLiterals = true;
        Object.values(template.members).forEach(look);
        return;
      case "scalar":
    }
  };
  for (const step of stepsOf(target)) argsOf(step)?.forEach(look);
  return found;
}

export function hasHoles(target: Expression): boolean {
  const { takesArgs, takesCaller, hasLiterals } = holesOf(target);
  return takesArgs || takesCaller || hasLiterals;
}

/** What the holes of a target are filled with. */
export interface Filling {
  /** Arguments of the call that the match does not pin. */
  readonly args: readonly Json[];
  /** Path of the context the call started at. */
  readonly caller: string;
}

/**
 * The target with its holes filled: plain data.
 *
 * @throws CodedError INVALID_INPUT: a hole takes exactly one argument, or one object, and the call has something else.
 */
export function fillTarget(target: Expression, filling: Filling): Expression {
  return ["itx", ...stepsOf(target).map((step) => filledStep(step, filling))];
}

function filledStep(step: Step, filling: Filling): Step {
  const templates = argsOf(step);
  if (templates === null) return step;
  return [step[0], ...templates.flatMap((value) => (templateOf(value).kind === "args" ? filling.args : [filled(value, filling)]))];
}

function filled(value: Json, filling: Filling): Json {
  const template = templateOf(value);
  switch (template.kind) {
    case "scalar":
      return template.value;
    case "caller":
      return filling.caller;
    case "arg":
      return onlyArgument(filling.args, "@");
    case "array":
      return template.items.map((item) => filled(item, filling));
    case "merge": {
      const merged = onlyArgument(filling.args, "{...@}");
      if (merged === null || typeof merged !== "object" || Array.isArray(merged))
        throw codedError("INVALID_INPUT", "the rule merges its argument into an object: {...@} takes an object");
      return { ...(merged as Members), ...filledMembers(template.members, filling) };
    }
    default:
      return filledMembers((template as { members: Members }).members, filling);
  }
}

function filledMembers(members: Members, filling: Filling): Members {
  return Object.fromEntries(Object.entries(members).map(([key, member]) => [key, filled(member, filling)]));
}

function onlyArgument(args: readonly Json[], hole: string): Json {
  if (args.length === 1) return args[0]!;
  throw codedError(
    "INVALID_INPUT",
    `the rule places one argument at ${hole}; the call has ${args.length} beyond what the match pins`,
    {
      arguments: args.length,
    },
  );
}
