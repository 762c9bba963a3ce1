/** `describe`: what anything addressable is, and how it is used. */
import { method } from "@iterate-platform/service/capability";
import type { Description } from "iterate/api";
import { toExpression, type Expression } from "iterate/expression";
import { z } from "zod";
import { expressionForm } from "../arguments.js";
import type { BuiltinCall, ContextRoot } from "../contract.js";

const types = `interface Description {
  expression: string;
  path: string;
  /** masked: a rule says it does not answer; dangling: it leads to nothing; offline: its service is away. */
  state: "bound" | "masked" | "dangling" | "offline";
  summary: string;
  instructions: string;
  /** TypeScript declarations. */
  types: string;
  methods: { call: string; signature: string; description: string; example: string; effect: "read" | "write" }[];
  rules: {
    path: string; match: string; target: string | null; description: string; configuredAtOffset: number;
    by: { origin: string; principal: string | null; isPlatform: boolean } | null;
  }[];
  entries: { expression: string; summary: string; state: string }[];
  standsFor: { path: string; expression: string } | null;
  mayCall: boolean;
  refusal: { code: string; message: string } | null;
  /** All of it in words. */
  text: string;
}`;

/** @param describe says what an expression is, for the caller of a call. */
export function describeRoot(describe: (call: BuiltinCall, asked: Expression) => Promise<Description>): ContextRoot {
  return {
    name: "describe",
    isContextRoot: true,
    description: "Says what can be called here, and how.",
    instructions:
      'Without an argument it lists what the context answers. With an expression, such as "itx.kv" or the name a rule gives, it answers ' +
      "what that is, its instructions, methods with signatures and examples, and whether you may call it.",
    types,
    member: method(
      z.tuple([expressionForm.optional()]),
      {
        signature: "(expression?: string | unknown[]) => Promise<Description>",
        description: "What an expression is and how it is used; without one, what the context answers.",
        example: 'itx.describe("itx.append").text',
        effect: "read",
      },
      (call: BuiltinCall, asked) => describe(call, asked === undefined ? ["itx"] : toExpression(asked)),
    ),
  };
}
