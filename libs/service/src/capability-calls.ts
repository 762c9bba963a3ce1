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

type Place<Call> =
  | { readonly kind: "member"; readonly member: Member<Call>; readonly handle: unknown }
  | { readonly kind: "handle"; readonly methods: Members<Call>; readonly handle: unknown }
  | Answer;

/**
 * @param steps from the root's own step on.
 * @throws CodedError NOT_A_METHOD naming the step and the nearest member, INVALID_INPUT naming the argument, and what the method throws.
 */
export async function evaluate<Call>(root: BuiltinRoot<Call>, steps: readonly Step[], call: Call): Promise<Answer> {
  let name = "itx";
  let place: Place<Call> = { kind: "handle", methods: { [root.name]: root.member }, handle: undefined };
  for (const step of steps) {
    place = await next(place, step, name, call);
    name += nameOf(step) === "" ? "()" : `.${nameOf(step)}${argsOf(step) === null ? "" : "()"}`;
  }
  if (place.kind === "value" || place.kind === "stream") return place;
  if (place.kind === "member" && place.member.kind === "method")
    throw notAMethod(`${name} is a method; call it: ${place.member.example}`, name);
  throw notAMethod(`${name} answers nothing by itself; go on with ${listed(membersOf(place))}`, name);
}

async function next<Call>(place: Place<Call>, step: Step, before: string, call: Call): Promise<Place<Call>> {
  const args = argsOf(step);
  switch (place.kind) {
    case "value":
      if (args !== null) throw notAMethod(`${before} is data: it has properties and no methods, such as ${shown(step)}`, before);
      return { kind: "value", value: propertyOf(place.value, nameOf(step), before) };
    case "stream":
      throw notAMethod(`${before} is a stream: nothing can follow it, such as ${shown(step)}`, before);
    default: {
      const member = memberOf(place, step, before);
      const path = nameOf(step) === "" ? before : `${before}.${nameOf(step)}`;
      if (args === null) return { kind: "member", member, handle: place.handle };
      if (member.kind === "group")
        throw notAMethod(`${path} is no method; call one of ${listed(Object.keys(member.members))}`, path);
      return await called(member, checkedArgs(member, args, path), place.handle, call);
    }
  }
}

function memberOf<Call>(place: Exclude<Place<Call>, Answer>, step: Step, before: string): Member<Call> {
  const name = nameOf(step);
  if (name === "" && place.kind === "member") return place.member;
  const members = place.kind === "handle" ? place.methods : place.member.kind === "group" ? place.member.members : {};
  if (Object.hasOwn(members, name)) return members[name]!;
  throw unknownMember(before, name, Object.keys(members));
}

async function called<Call>(method: Method<Call>, args: readonly unknown[], handle: unknown, call: Call): Promise<Place<Call>> {
  const answer: unknown = await method.call(call, args, handle);
  if (method.methods !== null) return { kind: "handle", methods: method.methods, handle: answer };
  return isStream(answer) ? { kind: "stream", items: answer } : { kind: "value", value: answer };
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

function membersOf<Call>(place: Exclude<Place<Call>, Answer>): string[] {
  if (place.kind === "handle") return Object.keys(place.methods);
  return place.member.kind === "group" ? Object.keys(place.member.members) : [];
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
