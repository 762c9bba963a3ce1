/**
 * Expressions: what names a capability and calls it, as data. An expression starts at `itx` and goes on in steps; each step takes a
 * property of what stands before it or calls a method of it.
 */
import { codedError, type CodedError } from "../lib/coded-error.js";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** A property, or a call `[method, ...args]`; the method `""` calls the value itself. */
export type Step = string | readonly [method: string, ...args: Json[]];

/** `["itx", ...steps]`. */
export type Expression = readonly ["itx", ...Step[]];

/** Bounds of an expression. They keep every walk over one short and flat. */
export const expressionLimits = {
  /** Longest text, in bytes of UTF-8. */
  bytes: 1_048_576,
  steps: 256,
  /** Arrays and objects inside one another in one argument. */
  depth: 64,
} as const;

const namePattern = /^[A-Za-z_$][A-Za-z0-9_$-]*$/;
const reservedNames: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

/** Whether `name` may be a step: a letter, `_` or `$` first, then also digits and `-`; never a name of JavaScript's prototypes. */
export function isStepName(name: string): boolean {
  return namePattern.test(name) && !reservedNames.has(name);
}

/** A key that would set the prototype of the object it is copied to. */
export function isRefusedKey(key: string): boolean {
  return key === "__proto__";
}

export function nameOf(step: Step): string {
  return typeof step === "string" ? step : step[0];
}

/** The arguments of a call; `null` for a property. */
export function argsOf(step: Step): readonly Json[] | null {
  return typeof step === "string" ? null : step.slice(1);
}

export function stepsOf(expression: Expression): readonly Step[] {
  return expression.slice(1);
}

/** @throws CodedError INVALID_INPUT naming the place, EXPRESSION_TOO_LONG: `value` is no parsed expression. */
export function assertExpression(value: unknown): asserts value is Expression {
  assertSteps(value, (argument, place) => {
    assertJson(argument, place, 0);
  });
}

/** Checks everything but the arguments, which `assertArgument` is given with their places. */
export function assertSteps(
  value: unknown,
  assertArgument: (argument: unknown, place: string, step: number, last: number) => void,
): void {
  if (!Array.isArray(value) || value[0] !== "itx") throw invalid('an expression is an array that starts with "itx"', "[0]");
  const last = value.length - 1;
  if (last > expressionLimits.steps) throw tooManySteps(last);
  for (let index = 1; index <= last; index += 1) {
    const step: unknown = value[index];
    if (typeof step === "string") {
      if (!isStepName(step)) throw invalid(`${shown(step)} is no name`, `[${index}]`);
      continue;
    }
    if (!Array.isArray(step) || typeof step[0] !== "string" || (step[0] !== "" && !isStepName(step[0])))
      throw invalid("a step is a name or [name, ...arguments]", `[${index}]`);
    // A call of a name has one form: a rule that pins its arguments could be passed by in another.
    if (step[0] === "" && typeof value[index - 1] === "string" && index > 1)
      throw invalid("a call of what a name stands for is written [name, ...arguments]", `[${index}]`);
    for (let at = 1; at < step.length; at += 1) assertArgument(step[at], `[${index}][${at}]`, index, last);
  }
}

/** @throws CodedError INVALID_INPUT: `value` is no JSON, or nests deeper than it may. */
export function assertJson(value: unknown, place: string, depth: number): asserts value is Json {
  if (value === null || typeof value === "boolean" || typeof value === "string") return;
  if (typeof value === "number") {
    if (Number.isFinite(value)) return;
    throw invalid(`${value} is no JSON number`, place);
  }
  if (typeof value !== "object") throw invalid(`a value of type ${typeof value} is no JSON`, place);
  assertDepth(depth + 1, place);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) assertJson(value[index], `${place}[${index}]`, depth + 1);
    return;
  }
  assertPlainObject(value, place);
  for (const key of Object.keys(value)) assertJson(value[key], memberPlace(place, key), depth + 1);
}

export function assertPlainObject(value: object, place: string): asserts value is Record<string, unknown> {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) throw invalid("an object of a class is no JSON", place);
  if (Object.hasOwn(value, "__proto__")) throw invalid('the key "__proto__" is refused', place);
}

export function assertDepth(depth: number, place: string): void {
  if (depth > expressionLimits.depth) throw invalid(`values nest at most ${expressionLimits.depth} deep`, place);
}

/** The place of a member in a parsed expression, for the words of an error. */
export function memberPlace(place: string, key: string): string {
  return `${place}.${key.slice(0, 64)}`;
}

/** A refusal that names a place in a parsed expression. Only the end of a long place is told. */
export function invalid(problem: string, place: string): CodedError {
  const told = place.length > 200 ? `…${place.slice(-200)}` : place;
  return codedError("INVALID_INPUT", `expression: ${problem} (at ${told})`, { at: told });
}

export function tooManySteps(steps: number, position?: number): CodedError {
  const where = position === undefined ? "" : ` (at position ${position})`;
  return codedError("EXPRESSION_TOO_LONG", `expression: at most ${expressionLimits.steps} steps${where}`, {
    limit: expressionLimits.steps,
    steps,
    ...(position === undefined ? {} : { position }),
  });
}

/** A word of the caller's in an error, cut short and printable. */
export function shown(text: string): string {
  return JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text);
}
