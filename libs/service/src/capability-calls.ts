/**
 * Evaluates the steps below a root in one go: names lead to methods, calls are checked and made, and once a call has answered JSON
 * plain names read its own properties.
 */
import { nearestName } from "iterate/events";
import { argsOf, nameOf, type Step } from "iterate/expression";
import { codedError, type CodedError } from "iterate/lib";
import type { BuiltinRoot, Member, Members, Method } from "./capability.js";

/** What a call answered. */
export type Answer =
  { readonly kind: "value"; readonly value: unknown } | { readonly kind: "stream"; readonly items: AsyncIterable<unknown> };

/** What steps ask for, known before anything is called. */
interface Plan<Call> {
  /** All but the first are made of the handle that the one before answered. */
  readonly calls: readonly { readonly method: Method<Call>; readonly args: readonly unknown[] }[];
  /** Properties of the last answer, from the outside in. */
  readonly properties: readonly string[];
  /** The steps up to the last call, and up to each property, as they are named in errors. */
  readonly name: string;
}

/**
 * @param steps from the root's own step on. Nothing is called unless all of them lead somewhere and every argument fits.
 * @throws CodedError NOT_A_METHOD naming the step and the nearest member, INVALID_INPUT naming the argument, and what the method throws.
 */
export async function evaluate<Call>(root: BuiltinRoot<Call>, steps: readonly Step[], call: Call): Promise<Answer> {
  const { calls, properties, name } = planned(root, steps);
  let answer: unknown;
  for (const { method, args } of calls) answer = await method.call(call, args, answer);
  if (isStream(answer)) {
    if (properties.length > 0) throw notAMethod(`${name} is a stream: nothing can follow it, such as .${properties[0]}`, name);
    return { kind: "stream", items: answer };
  }
  let value = answer;
  let place = name;
  for (const property of properties) {
    value = propertyOf(value, property, place);
    place += `.${property}`;
  }
  return { kind: "value", value };
}

function planned<Call>(root: BuiltinRoot<Call>, steps: readonly Step[]): Plan<Call> {
  const calls: { method: Method<Call>; args: readonly unknown[] }[] = [];
  let members: Members<Call> | null = { [root.name]: root.member };
  /** A method that is named and not called yet. */
  let named: Method<Call> | null = null;
  let name = "itx";
  for (const [at, step] of steps.entries()) {
    if (members === null && named === null) return { calls, properties: propertiesFrom(steps.slice(at), name), name };
    const args = argsOf(step);
    const member: Member<Call> = named !== null && nameOf(step) === "" ? named : memberOf(members ?? {}, nameOf(step), name);
    const path = nameOf(step) === "" ? name : `${name}.${nameOf(step)}`;
    if (args === null) {
      members = member.kind === "group" ? member.members : null;
      named = member.kind === "method" ? member : null;
      name = path;
      continue;
    }
    if (member.kind === "group") throw notAMethod(`${path} is no method; call one of ${listed(Object.keys(member.members))}`, path);
    calls.push({ method: member, args: checkedArgs(member, args, path) });
    members = member.methods;
    named = null;
    name = `${path}()`;
  }
  if (named !== null) throw notAMethod(`${name} is a method; call it: ${named.example}`, name);
  if (members !== null) throw notAMethod(`${name} answers nothing by itself; go on with ${listed(Object.keys(members))}`, name);
  return { calls, properties: [], name };
}

/** After an answer. Throws NOT_A_METHOD for a call: what was answered is data. */
function propertiesFrom(steps: readonly Step[], name: string): string[] {
  return steps.map((step) => {
    if (argsOf(step) === null) return nameOf(step);
    throw notAMethod(`${name} is data: it has properties and no methods, such as ${shown(step)}`, name);
  });
}

function memberOf<Call>(members: Members<Call>, name: string, before: string): Member<Call> {
  if (Object.hasOwn(members, name)) return members[name]!;
  throw unknownMember(before, name, Object.keys(members));
}

function checkedArgs<Call>(method: Method<Call>, args: readonly unknown[], path: string): readonly unknown[] {
  const parsed = method.arguments.safeParse(args);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = (issue?.path ?? []).map(String);
  const where =
    place.length === 0
      ? "arguments"
      : `arguments[${place[0]}]${place
          .slice(1)
          .map((key) => `.${key}`)
          .join("")}`;
  throw codedError(
    "INVALID_INPUT",
    `${path}: ${where}: ${issue?.message ?? "are not what it takes"}; it takes ${method.signature}`,
    {
      method: path,
      field: where,
    },
  );
}

/** Own properties of objects and arrays. As in JavaScript, one that is not there is nothing, and nothing has no properties. */
function propertyOf(value: unknown, name: string, before: string): unknown {
  if (typeof value !== "object" || value === null) {
    const what = value === undefined ? "nothing" : value === null ? "null" : `a ${typeof value}`;
    throw notAMethod(`${before} is ${what}: it has no property ${JSON.stringify(name)}`, before);
  }
  return Object.hasOwn(value, name) ? (value as Readonly<Record<string, unknown>>)[name] : undefined;
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

/** NOT_A_METHOD for a name that `before` has not. */
export function unknownMember(before: string, name: string, known: readonly string[]): CodedError {
  const nearest = nearestName(name, known);
  const hint = nearest === null ? (known.length === 0 ? "" : `; it has ${listed(known)}`) : `; did you mean ${nearest}?`;
  return notAMethod(`${before} has no ${name === "" ? "call of its own" : JSON.stringify(name)}${hint}`, before);
}

function notAMethod(message: string, at: string): CodedError {
  return codedError("NOT_A_METHOD", message, { at });
}

const maxListed = 12;

function listed(names: readonly string[]): string {
  const more = names.length - maxListed;
  return names.slice(0, maxListed).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function shown(step: Step): string {
  return argsOf(step) === null ? `.${nameOf(step)}` : `${nameOf(step) === "" ? "" : `.${nameOf(step)}`}(…)`;
}
