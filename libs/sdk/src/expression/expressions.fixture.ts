/** Expressions and targets for property tests. */
import fc from "fast-check";
import { argsOf, type Expression, type Json, type Step } from "./expression.js";

const name = fc.oneof(
  fc.constantFrom("kv", "get", "db", "a", "builtins", "_x", "$", "made-up"),
  fc
    .stringMatching(/^[A-Za-z_$][A-Za-z0-9_$-]{0,8}$/)
    .filter((text) => text !== "__proto__" && text !== "constructor" && text !== "prototype"),
);

const text = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.constantFrom("@", "itx", "\u0000", "\ud800", "'", '"', "\\"));
const key = fc.oneof(text, fc.constantFrom("a", "b", "with", "value", "@")).filter((word) => word !== "__proto__");

const number = fc
  .oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }))
  .map((value) => (value === 0 ? 0 : value));
const scalar: fc.Arbitrary<Json> = fc.oneof(fc.constant(null), fc.boolean(), number, text);

function objectOf(member: fc.Arbitrary<Json>): fc.Arbitrary<Readonly<Record<string, Json>>> {
  return fc.dictionary(key, member, { maxKeys: 4, noNullPrototype: true });
}

export const json: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof({ maxDepth: 4 }, scalar, fc.array(tie("value"), { maxLength: 3 }), objectOf(tie("value"))),
})).value;

/** A value of a target, nested; `holes` tells whether it may hold those of a last step. */
function templates(holes: "last" | "any"): fc.Arbitrary<Json> {
  const hole: fc.Arbitrary<Json> =
    holes === "last" ? fc.constantFrom<Json>({ "@": "arg" }, { "@": "caller" }) : fc.constant({ "@": "caller" });
  return fc.letrec<{ value: Json }>((tie) => {
    const object = objectOf(tie("value")).map((members): Json => ("@" in members ? { "@": "literal", value: members } : members));
    const merge = objectOf(tie("value")).map((members): Json => ({ "@": "merge", with: members }));
    return {
      value: fc.oneof(
        { maxDepth: 4 },
        scalar,
        hole,
        fc.array(tie("value"), { maxLength: 3 }),
        object,
        ...(holes === "last" ? [merge] : []),
      ),
    };
  }).value;
}

const isNestedArg = (value: Json): boolean => JSON.stringify(value) === '{"@":"arg"}';
const topLevel = (value: Json): Json => (isNestedArg(value) ? { "@": "args" } : value);

function stepOf(argument: fc.Arbitrary<Json>): fc.Arbitrary<Step> {
  const args = fc.array(argument, { maxLength: 3 });
  return fc.oneof(
    name,
    fc.tuple(name, args).map(([method, given]): Step => [method, ...given]),
    args.map((given): Step => ["", ...given]),
  );
}

/** A call of what a name stands for is a step of that name. */
function joined(steps: readonly Step[]): Expression {
  const all: Step[] = [];
  for (const step of steps) {
    const last = all.at(-1);
    if (step[0] === "" && typeof last === "string") all[all.length - 1] = [last, ...argsOf(step)!];
    else all.push(step);
  }
  return ["itx", ...all];
}

export const expression: fc.Arbitrary<Expression> = fc.array(stepOf(json), { maxLength: 5 }).map(joined);

export const target: fc.Arbitrary<Expression> = fc
  .tuple(fc.array(stepOf(templates("any")), { maxLength: 3 }), stepOf(templates("last").map(topLevel)))
  .map(([steps, last]) => joined([...steps, last]));
