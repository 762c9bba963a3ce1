/** The text of an expression: one spelling for one call, so that it can be a key. */
import { argsOf, nameOf, stepsOf, type Expression, type Json, type Step } from "./expression.js";
import { templateOf } from "./holes.js";

const plainKey = /^[A-Za-z_$][A-Za-z0-9_$]*$/;

/** The canonical text of a call or a match: keys in the order of their code units. `@` is a key like any other. */
export function printExpression(expression: Expression): string {
  return printSteps(stepsOf(expression), printJson);
}

/** The canonical text of a rule's target, with its holes. */
export function printTarget(target: Expression): string {
  return printSteps(stepsOf(target), printTemplate);
}

/** The canonical text of a value of JSON, as arguments are printed. */
export function printJson(value: Json): string {
  if (value === null || typeof value !== "object") return printScalar(value);
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(printJson).join(", ")}]`;
  return `{${printMembers(value as Readonly<Record<string, Json>>, printJson).join(", ")}}`;
}

function printSteps(steps: readonly Step[], print: (value: Json) => string): string {
  let text = "itx";
  for (const step of steps) {
    const name = nameOf(step);
    const args = argsOf(step);
    if (name !== "") text += `.${name}`;
    if (args !== null) text += `(${args.map(print).join(", ")})`;
  }
  return text;
}

function printTemplate(value: Json): string {
  const template = templateOf(value);
  switch (template.kind) {
    case "args":
    case "arg":
      return "@";
    case "caller":
      return "@caller";
    case "scalar":
      return printScalar(template.value);
    case "array":
      return `[${template.items.map(printTemplate).join(", ")}]`;
    case "merge":
      return `{${["...@", ...printMembers(template.members, printTemplate)].join(", ")}}`;
    case "object":
      return `{${printMembers(template.members, printTemplate).join(", ")}}`;
  }
}

/** Escapes lone surrogates too: the text is well-formed whatever it tells. */
function printScalar(value: null | boolean | number | string): string {
  return JSON.stringify(value);
}

function printMembers(members: Readonly<Record<string, Json>>, print: (value: Json) => string): string[] {
  return Object.keys(members)
    .sort()
    .map((key) => `${plainKey.test(key) ? key : JSON.stringify(key)}: ${print(members[key]!)}`);
}
