/** The calling side of ContextService: decode, authorize, call, encode. */
import type { ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import type { Expression as ExpressionMessage } from "@iterate-platform/proto/iterate/type/v1/invocation";
import { toDescribeResponse } from "@iterate-platform/service/description";
import type { HandlerOf, MethodRule } from "@iterate-platform/service/grpc-server";
import { assertExpression, parseExpression, type Expression } from "iterate/expression";
import { codedError } from "iterate/lib";
import type { Caller } from "@iterate-platform/service/caller";
import type { Describer } from "../invoke/describer.js";
import { callerPathOf, type Invoker } from "../invoke/invoker.js";
import { jsonProblem } from "../json/scan.js";
import { textProblem } from "../log/storable-text.js";
import { addressOf } from "./input.js";

type Methods = Pick<ContextServiceService, "invoke" | "describe">;

/** It leaves room in a key for where the append goes and a digest of it. */
const maxKeyScopeBytes = 384;

const callers: MethodRule = { services: ["ingress", "runner", "bundler"], execution: "allowed", person: "allowed" };

export const invokeRules: Record<keyof Methods, MethodRule> = { invoke: callers, describe: callers };

export interface InvokeParts {
  readonly invoker: Invoker;
  readonly describer: Describer;
}

export function invokeHandlers({ invoker, describer }: InvokeParts): {
  readonly [Name in keyof Methods]: HandlerOf<Methods[Name]>;
} {
  return {
    invoke: async function* ({ context, expression, keyScope }, call) {
      const address = addressOf(context, call.caller);
      const scope = keyScopeOf(keyScope, call.caller);
      for await (const part of invoker.invoke(address, expressionOf(expression), call, scope)) yield { part };
    },
    describe: async ({ context, expression }, incoming) => {
      const address = addressOf(context, incoming.caller);
      const asked: Expression = expression === undefined ? ["itx"] : expressionOf(expression);
      const callerPath = callerPathOf(address, incoming.caller);
      return toDescribeResponse(await describer.describe(address, asked, { callerPath, incoming }));
    },
  };
}

/** Only code is called again for what it handles. Throws INVALID_INPUT. */
function keyScopeOf(scope: string, { execution }: Caller): string | null {
  if (scope === "") return null;
  if (execution !== undefined && textProblem(scope, maxKeyScopeBytes) === null) return scope;
  throw codedError("INVALID_INPUT", `key_scope is for calls of code, at most ${maxKeyScopeBytes} bytes`, { field: "key_scope" });
}

/** @throws CodedError INVALID_INPUT, INVALID_JSON, EXPRESSION_TOO_LONG. */
export function expressionOf(message: ExpressionMessage | undefined): Expression {
  const form = message?.form;
  if (form === undefined) throw codedError("INVALID_INPUT", "the call names no expression", { field: "expression" });
  if (form.$case === "text") return parseExpression(form.value);
  const bytes = Buffer.from(form.value.buffer, form.value.byteOffset, form.value.byteLength);
  const problem = jsonProblem(bytes);
  if (problem !== null) throw codedError("INVALID_JSON", `expression ${problem}`, { field: "expression" });
  const expression: unknown = JSON.parse(bytes.toString("utf8"));
  assertExpression(expression);
  return expression;
}
