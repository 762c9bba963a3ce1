/** What the words of a root lack for somebody who knows nothing else: the check that every service runs over the roots it answers. */
import type { Root } from "@iterate-platform/proto/iterate/capability/v1/capability";
import { nameOf, parseExpression, stepsOf } from "iterate/expression";
import { invocationLimits } from "./capability.js";

/** Types that need no declaration: those of TypeScript, and handles, whose methods are described beside them. */
const knownTypes: ReadonlySet<string> = new Set(["Promise", "Record", "AsyncIterable", "Itx", "Facet"]);

/** One sentence for each gap; none when the root can be called from its words alone. */
export function rootGaps({ name, description, instructions, types, methods }: Root): string[] {
  const gaps: string[] = [];
  if (description === "") gaps.push(`${name} has no description`);
  if (instructions === "") gaps.push(`${name} has no instructions`);
  if (instructions.length > invocationLimits.instructionsChars)
    gaps.push(
      `${name} has instructions of ${instructions.length} characters; at most ${invocationLimits.instructionsChars} are told`,
    );
  if (methods.length === 0) gaps.push(`${name} has no method`);
  for (const { path, signature, description: purpose, example } of methods) {
    if (purpose === "") gaps.push(`${path} has no description`);
    if (!/^\(.*\) => .+/.test(signature)) gaps.push(`${path} has no signature of a function: ${signature}`);
    for (const [type] of signature.matchAll(/\b[A-Z][A-Za-z]+\b/g))
      if (!knownTypes.has(type) && !types.includes(`interface ${type} `))
        gaps.push(`${path} names ${type}, which nothing declares`);
    gaps.push(...exampleGaps(path, example));
  }
  return gaps;
}

function exampleGaps(path: string, example: string): string[] {
  try {
    const names = stepsOf(parseExpression(example)).map(nameOf);
    const wanted = path.replaceAll("()", "").split(".");
    return wanted.every((name, at) => names[at] === name) ? [] : [`${path} has an example that calls ${names.join(".")}`];
  } catch (error) {
    return [`${path} has an example that does not parse: ${error instanceof Error ? error.message : "unknown"}`];
  }
}
