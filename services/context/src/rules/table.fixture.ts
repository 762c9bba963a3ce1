/** Rule tables from text: `[match, target]`, holes included. */
import { parseExpression, parseTarget, printExpression, toMatch, type Expression } from "iterate/expression";
import type { ResolveInput, Resolution, RuleRow, RuleTable } from "./contract.js";
import { resolve } from "./resolve.js";
import { vocabularyOfRoots } from "./roots.js";

export type Rule = readonly [match: string, target: string | null];

export function ruleRow(match: Expression, target: Expression | null, configuredAtOffset: number): RuleRow {
  return { match, target, description: null, instructions: null, types: null, configuredAtOffset };
}

export function tableOf(...rules: readonly Rule[]): RuleTable {
  return Object.fromEntries(
    rules.map(([text, target], index): [string, RuleRow] => {
      const match = toMatch(text);
      return [printExpression(match), ruleRow(match, target === null ? null : parseTarget(target), index + 1)];
    }),
  );
}

export function resolveText(text: string, rules: readonly Rule[], rest: Partial<ResolveInput> = {}): Resolution {
  return resolve({
    table: tableOf(...rules),
    roots: vocabularyOfRoots,
    isRoot: true,
    expression: parseExpression(text),
    caller: "/caller",
    ...rest,
  });
}

/** The builtin or context that an expression ends at, as text; the code when it ends nowhere. */
export function ending(text: string, rules: readonly Rule[], rest: Partial<ResolveInput> = {}): string {
  try {
    const found = resolveText(text, rules, rest);
    return found.kind === "builtin"
      ? printExpression(["itx", ...found.steps])
      : `${found.path} ${printExpression(found.expression)}`;
  } catch (error) {
    return (error as { code: string }).code;
  }
}
