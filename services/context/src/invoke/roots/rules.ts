/** `rewriteRules` and `provide`: what calls stand for in a context. */
import { group, method } from "@iterate-platform/service/capability";
import { itx } from "iterate/events";
import { printExpression, printTarget, toExpression, toMatch, toTarget, type Expression } from "iterate/expression";
import { codedError } from "iterate/lib";
import { z } from "zod";
import { initialCore } from "../../core/fold.js";
import { readableCore, type Heads } from "../../log/confirm.js";
import type { ContextAddress } from "../../log/contract.js";
import type { RuleRow, RuleTable } from "../../rules/contract.js";
import { ruleTable } from "../../rules/table.js";
import { isLoadedCode } from "../../rules/wall.js";
import { expressionForm, none } from "../arguments.js";
import type { BuiltinCall, ContextRoot } from "../contract.js";
import { present, record } from "../record.js";
import type { Resolver } from "../resolver.js";

const words = z.strictObject({
  description: z.string().optional(),
  instructions: z.string().optional(),
  types: z.string().optional(),
});

const ruleTypes = `interface RuleRow {
  /** What a call begins with, as text. */
  match: string;
  /** What it stands for; null masks what would answer beneath. */
  target: string | null;
  description: string | null;
  instructions: string | null;
  types: string | null;
  /** Offset of the event that set it. */
  configuredAtOffset: number;
}`;

/** An expression, as text or parsed. */
const form = "string | unknown[]";

export function ruleRoots(heads: Heads, resolver: Resolver): ContextRoot[] {
  const tableOf = async (address: ContextAddress): Promise<RuleTable> => {
    const head = await heads.confirm(address);
    return ruleTable(head === undefined ? initialCore : readableCore(head));
  };
  const rowOf = async (address: ContextAddress, match: Expression): Promise<RuleRow | undefined> => {
    const table = await tableOf(address);
    const key = printExpression(match);
    return Object.hasOwn(table, key) ? table[key] : undefined;
  };
  return [
    {
      name: "rewriteRules",
      isContextRoot: true,
      description: "The rules that say what calls stand for in the context.",
      instructions:
        "A rule maps what a call begins with to another expression; the longest match decides. What no rule and no builtin answers is " +
        "denied. Set a rule by provide, take it away by remove; describe says what a name means and how it is used.",
      types: ruleTypes,
      member: group<BuiltinCall>({
        list: method(
          none,
          {
            signature: "() => Promise<RuleRow[]>",
            description: "The context's own rules, by their matches.",
            example: "itx.rewriteRules.list()",
            effect: "read",
          },
          async ({ address }: BuiltinCall) =>
            Object.entries(await tableOf(address))
              .sort(([one], [other]) => (one < other ? -1 : 1))
              .map(([, row]) => told(row)),
        ),
        get: method(
          z.tuple([expressionForm]),
          {
            signature: `(match: ${form}) => Promise<RuleRow | null>`,
            description: "The rule of exactly this match; null when there is none.",
            example: 'itx.rewriteRules.get("itx.db")',
            effect: "read",
          },
          async ({ address }: BuiltinCall, match) => {
            const row = await rowOf(address, toMatch(match));
            return row === undefined ? null : told(row);
          },
        ),
        resolve: method(
          z.tuple([expressionForm]),
          {
            signature: `(call: ${form}) => Promise<{path: string; expression: string; via: {path: string; match: string; target: string}[]}>`,
            description: "What a call stands for, without calling it: the builtin, the context that answers, the rules in between.",
            example: "itx.rewriteRules.resolve(\"itx.db.get('k')\")",
            effect: "read",
          },
          async ({ address, callerPath }: BuiltinCall, asked) => {
            const { address: answers, steps, via } = await resolver.resolve(address, toExpression(asked), callerPath);
            return {
              path: answers.path,
              expression: printExpression(["itx", "builtins", ...steps]),
              via: via.map(({ address: { path }, row: { match, target } }) => ({
                path,
                match: printExpression(match),
                target: printTarget(target!),
              })),
            };
          },
        ),
        remove: method(
          z.tuple([expressionForm, z.strictObject({ ifTarget: expressionForm.optional() }).optional()]),
          {
            signature: `(match: ${form}, options?: {ifTarget?: ${form}}) => Promise<{removed: boolean}>`,
            description:
              "Takes a rule away, with ifTarget only while it has that target. A paused context does so when it is resumed.",
            example: 'itx.rewriteRules.remove("itx.db", {ifTarget: "itx.kv"})',
            effect: "write",
          },
          async (call: BuiltinCall, given, options) => {
            const match = toMatch(given);
            const row = await rowOf(call.address, match);
            if (row === undefined) return { removed: false };
            const key = printExpression(match);
            if (row.target === null)
              throw codedError("INVALID_INPUT", `${key} is a mask: provide what it is to stand for instead`, { match: key });
            const ifTarget = options?.ifTarget === undefined ? undefined : toTarget(options.ifTarget);
            // Code may name no target: where something would answer beneath, it leaves a mask.
            const named = ifTarget ?? (isLoadedCode(call.writer) ? undefined : row.target);
            await record(call, itx.rewriteRuleConfigured, present({ match, target: null, ifTarget: named }));
            return { removed: (await rowOf(call.address, match)) === undefined };
          },
        ),
      }),
    },
    {
      name: "provide",
      isContextRoot: true,
      description: "Makes a name of the context stand for an expression.",
      instructions:
        'The target is an expression: "itx.kv", "itx.cd(\'/\').repos", or null to mask what would answer. In its last call @ stands for ' +
        "the arguments of the caller and {...@} for an object of theirs; @caller anywhere is the path of the context that calls. Give instructions and types: they are " +
        "all that others read, by describe, before they call. Answers what takes the rule away again: rewriteRules.remove(match, " +
        "{ifTarget: target}), which leaves a rule that came in its place.",
      types: "",
      member: method(
        z.tuple([expressionForm, expressionForm.nullable(), words.optional()]),
        {
          signature:
            `(match: ${form}, target: ${form} | null, words?: {description?: string; instructions?: string; types?: string}) => ` +
            "Promise<{match: string; target: string | null; configuredAtOffset: number}>",
          description: "Sets a rule, in the place of the one of its match.",
          example:
            'itx.provide("itx.db", "itx.cd(\'/\').kv", {description: "Settings of the team", instructions: "Keys are user ids."})',
          effect: "write",
        },
        async (call: BuiltinCall, givenMatch, givenTarget, given) => {
          const match = toMatch(givenMatch);
          const target = givenTarget === null ? null : toTarget(givenTarget);
          const configuredAtOffset = await record(call, itx.rewriteRuleConfigured, present({ match, target, ...given }));
          return { match: printExpression(match), target: target === null ? null : printTarget(target), configuredAtOffset };
        },
      ),
    },
  ];
}

function told({ match, target, ...row }: RuleRow) {
  return { match: printExpression(match), target: target === null ? null : printTarget(target), ...row };
}
