/** A description in words: what a person or a model reads before a call. */
import type { CapabilityState, DescribedEntry, DescribedMethod, DescribedRule, Description } from "iterate/api";

const states: Record<CapabilityState, string> = {
  bound: "It answers.",
  masked: "A rule masks it: it answers nothing.",
  dangling: "It leads to nothing that answers.",
  offline: "The service that answers it is away.",
};

export function withText(description: Omit<Description, "text">): Description {
  return { ...description, text: textOf(description) };
}

function textOf(description: Omit<Description, "text">): string {
  const { expression, path, summary, state, instructions, types, methods, entries, rules, standsFor, refusal } = description;
  const parts = [
    `${expression} at ${path}: ${summary}`,
    refusal === null || state !== "bound" ? states[state] : "",
    refusal === null ? "" : `You may not call it: ${refusal.message} (${refusal.code}).`,
    instructions,
    section("Methods", methods.map(methodText)),
    types === "" ? "" : `Types:\n${types}`,
    section("To describe further", entries.map(entryText)),
    section("Rules", rules.map(ruleText)),
    standsFor === null || rules.length === 0 ? "" : `It stands for ${standsFor.expression} at ${standsFor.path}.`,
  ];
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

function section(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? "" : `${title}:\n${lines.join("\n")}`;
}

function methodText({ call, signature, description, example, effect }: DescribedMethod): string {
  return `  ${call}: ${signature}\n    ${description}${effect === "write" ? " It may change something." : ""}\n    Example: ${example}`;
}

function entryText({ expression, summary, state }: DescribedEntry): string {
  return `  ${expression}${state === "bound" ? "" : ` (${state})`}${summary === "" ? "" : `: ${summary}`}`;
}

function ruleText({ path, match, target, description, configuredAtOffset, by }: DescribedRule): string {
  const author = by === null ? "" : by.isPlatform ? ", by the platform" : `, by ${by.principal ?? `code of ${by.origin}`}`;
  const words = description === "" ? "" : `: ${description}`;
  return `  ${match} => ${target ?? "null"}${words} (at ${path}, offset ${configuredAtOffset}${author})`;
}
