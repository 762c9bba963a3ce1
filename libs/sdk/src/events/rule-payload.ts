/** What makes a rule well-formed whatever the context: its match, its target, and the one shape of the row of a project's code. */
import { z } from "zod";
import { argsOf, nameOf, printExpression, stepsOf, type Expression, type Json } from "../expression/index.js";
import { exceedsUtf8 } from "../lib/utf8.js";
import { matchField, targetField } from "./expression-field.js";

/** Bounds of rules. Characters are UTF-16 code units; bytes are of UTF-8, and of JSON where a value is meant. */
export const ruleLimits = {
  /** The match of one rule, printed. */
  matchBytes: 4_096,
  /** The target of one rule. */
  targetBytes: 1_048_576,
  descriptionChars: 500,
  instructionsChars: 4_000,
  /** TypeScript declarations of one rule. */
  typesBytes: 65_536,
  /** Rules of one context, and the bytes of all of them. */
  perContext: 1_000,
  bytesPerContext: 4_194_304,
} as const;

/** Names of the handle itself; a rule for one would never be asked. */
const handleNames: ReadonlySet<string> = new Set(["invoke", "provide", "subscribe"]);

const offset = z.int().nonnegative();

/** The published code of a project, as the target of the row `itx.config`. */
export const publishedCode = z.tuple([
  z.literal("itx"),
  z.literal("builtins"),
  z.literal("workers"),
  z.tuple([
    z.literal("get"),
    z.strictObject({
      source: z.strictObject({ repo: z.string(), commit: z.string() }),
      digest: z.string(),
      generation: offset,
      modules: z
        .array(z.strictObject({ file: z.string(), module: z.string(), identity: z.string(), classes: z.array(z.string()) }))
        .max(200),
      mainModule: z.string().nullable(),
    }),
  ]),
]);

const prose = z.string().refine((text) => text.isWellFormed(), "holds a lone surrogate");

export const rulePayload = z
  .object({
    /** What a call begins with. */
    match: matchField,
    /** What it stands for; null masks what would answer beneath, or else takes the rule away. */
    target: targetField.nullable(),
    /** One line for lists. */
    description: prose.max(ruleLimits.descriptionChars).optional(),
    /** How it is used, in prose. */
    instructions: prose.max(ruleLimits.instructionsChars).optional(),
    /** What it takes and answers, as TypeScript declarations. */
    types: prose.refine((text) => !exceedsUtf8(text, ruleLimits.typesBytes), `is over ${ruleLimits.typesBytes} bytes`).optional(),
    /** With a null target: take the rule away only if this is its target. */
    ifTarget: targetField.optional(),
  })
  .superRefine((rule, context) => {
    const say = (field: string, message: string, code = "INVALID_INPUT"): void => {
      context.addIssue({ code: "custom", path: [field], message, params: { code } });
    };
    const problem = matchProblem(rule.match);
    if (problem !== null) say("match", problem);
    if (rule.target !== null && rule.ifTarget !== undefined) say("ifTarget", "goes with a null target alone");
    for (const field of ["target", "ifTarget"] as const) {
      const target = rule[field] ?? null;
      if (target !== null && exceedsUtf8(JSON.stringify(target), ruleLimits.targetBytes))
        say(field, `is over ${ruleLimits.targetBytes} bytes of JSON`, "EXPRESSION_TOO_LONG");
    }
    if (isConfigMatch(rule.match)) sayConfigProblem(rule, say);
  });

/** Whether a rule is about the published code of the project, which a concern of its own keeps. */
export function isConfigMatch(match: Expression): boolean {
  return match.length > 1 && nameOf(match[1]!) === "config";
}

function matchProblem(match: Expression): string | null {
  const [first] = stepsOf(match);
  if (first !== undefined && nameOf(first) === "builtins") return "may not start at itx.builtins, which no rule changes";
  if (first !== undefined && handleNames.has(nameOf(first)))
    return `may not start with ${nameOf(first)}, which is a method of the handle`;
  if (stepsOf(match).some((step) => argsOf(step)?.some(holdsHole) ?? false)) return "may not hold holes: it pins what it names";
  if (exceedsUtf8(printExpression(match), ruleLimits.matchBytes)) return `is over ${ruleLimits.matchBytes} bytes`;
  return null;
}

function holdsHole(value: Json): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.hasOwn(value, "@") || Object.values(value as Readonly<Record<string, Json>>).some(holdsHole);
}

interface GivenRule {
  readonly match: Expression;
  readonly target: Expression | null;
  readonly [field: string]: unknown;
}

function sayConfigProblem({ match, target, ...rest }: GivenRule, say: (field: string, message: string) => void): void {
  if (match.length !== 2 || typeof match[1] !== "string") say("match", "names a part of itx.config, which is one row");
  for (const field of Object.keys(rest)) if (rest[field] !== undefined) say(field, "is no field of the row itx.config");
  const shape = target === null ? null : publishedCode.safeParse(target);
  if (shape === null || shape.success) return;
  const [issue] = shape.error.issues;
  say(["target", ...(issue?.path ?? [])].join("."), issue?.message ?? "is no published code");
}
