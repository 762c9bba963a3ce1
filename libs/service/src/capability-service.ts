/** A service's roots over gRPC: what the context service lists and calls. */
import {
  Effect,
  type CapabilityServiceService,
  type Method as MethodMessage,
  type Root,
} from "@iterate-platform/proto/iterate/capability/v1/capability";
import { assertContextPath, codedError } from "iterate/lib";
import { assertExpression, nameOf, type Step } from "iterate/expression";
import { evaluate, unknownMember } from "./capability-calls.js";
import type { BuiltinRoot, CapabilityCall, Member } from "./capability.js";
import type { HandlerOf, MethodRule } from "./grpc-server.js";
import { resultParts } from "./invocation-result.js";
import { credentialHeaders } from "./trust.js";

type Methods = Pick<CapabilityServiceService, "list" | "invoke">;

const fromContext: MethodRule = { services: ["context"], execution: "allowed", person: "allowed" };

export const capabilityRules: Record<keyof Methods, MethodRule> = { list: fromContext, invoke: fromContext };

export function capabilityHandlers(roots: readonly BuiltinRoot<CapabilityCall>[]): {
  readonly [Name in keyof Methods]: HandlerOf<Methods[Name]>;
} {
  const byName = new Map(roots.map((root) => [root.name, root]));
  return {
    list: () => ({ roots: roots.map(rootMessage) }),
    invoke: async function* ({ context, steps: json, callerPath }, { caller, metadata, signal }) {
      const owner = context?.owner ?? "";
      const path = context?.path ?? "";
      assertContextPath(path);
      assertContextPath(callerPath);
      if (caller.execution !== undefined && caller.execution.owner !== owner)
        throw codedError("FORBIDDEN", `code of ${caller.execution.owner} may not call in the contexts of ${owner}`, { owner });
      const steps = stepsFrom(json);
      const name = nameOf(steps[0]);
      const root = byName.get(name);
      if (root === undefined) throw unknownMember("itx.builtins", name, [...byName.keys()]);
      const execution = metadata.get(credentialHeaders.execution)[0];
      const call: CapabilityCall = {
        address: { owner, path },
        callerPath,
        caller,
        credentials: { principal: caller.principal, execution: typeof execution === "string" ? execution : undefined },
        signal,
      };
      for await (const part of resultParts(await evaluate(root, steps, call))) yield { part };
    },
  };
}

/** @throws CodedError INVALID_INPUT, EXPRESSION_TOO_LONG. */
function stepsFrom(json: Uint8Array): readonly [Step, ...Step[]] {
  let steps: unknown;
  try {
    steps = JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString("utf8"));
  } catch {
    steps = null;
  }
  const expression: unknown = ["itx", ...(Array.isArray(steps) ? (steps as unknown[]) : [])];
  assertExpression(expression);
  const [, first, ...rest] = expression;
  if (first === undefined) throw codedError("INVALID_INPUT", "steps is no JSON list of steps, or empty", { field: "steps" });
  return [first, ...rest];
}

/** A root as it is told: everything but how it works. */
export function rootMessage<Call>({ name, isContextRoot, description, instructions, types, member }: BuiltinRoot<Call>): Root {
  return { name, isContextRoot, description, instructions, types, methods: [...methodMessages(name, member)] };
}

function* methodMessages<Call>(path: string, member: Member<Call>): Generator<MethodMessage> {
  if (member.kind === "method") {
    const { signature, description, example, effect } = member;
    yield { path, signature, description, example, effect: effect === "read" ? Effect.EFFECT_READ : Effect.EFFECT_WRITE };
  }
  const below = member.kind === "group" ? member.members : (member.methods ?? {});
  const before = member.kind === "group" ? path : `${path}()`;
  for (const [name, inner] of Object.entries(below)) yield* methodMessages(`${before}.${name}`, inner);
}
