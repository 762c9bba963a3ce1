/** Evaluates a call: resolves it, and has the root it ends at answer it, here or in the service that owns the root. */
import type { ResultPart } from "@iterate-platform/proto/iterate/type/v1/invocation";
import { evaluate } from "@iterate-platform/service/capability-calls";
import type { Caller } from "@iterate-platform/service/caller";
import { resultParts } from "@iterate-platform/service/invocation-result";
import type { CallContext } from "@iterate-platform/service/grpc-server";
import { credentialHeaders } from "@iterate-platform/service/trust";
import { spellsBuiltins, type Expression } from "iterate/expression";
import { codedError } from "iterate/lib";
import { writerOf, type NewChain } from "../caller/writer.js";
import type { ContextAddress } from "../log/contract.js";
import type { BuiltinCall } from "./contract.js";
import type { LocalLogs } from "./local-log.js";
import type { Registry } from "./registry.js";
import type { Resolver } from "./resolver.js";

export interface InvokerParts {
  readonly registry: Registry;
  readonly resolver: Resolver;
  readonly logs: LocalLogs;
  readonly newChain: NewChain;
}

export class Invoker {
  readonly #parts: InvokerParts;

  constructor(parts: InvokerParts) {
    this.#parts = parts;
  }

  /**
   * The answer to `expression` in the context `start`, for the caller of `call`. A stream is pulled, and ends when it is left.
   *
   * @param keyScope what the keys of appends begin with that come without one; null leaves them without.
   * @throws CodedError FORBIDDEN for what loaded code may not spell; what resolving, the builtin and its answer throw.
   */
  async *invoke(
    start: ContextAddress,
    expression: Expression,
    call: CallContext,
    keyScope: string | null,
  ): AsyncGenerator<ResultPart, void> {
    assertMaySpell(expression, call.caller);
    const { registry, resolver } = this.#parts;
    const callerPath = callerPathOf(start, call.caller);
    const { address, root: name, steps } = await resolver.resolve(start, expression, callerPath);
    const found = registry.find(name);
    if (found === undefined)
      throw codedError("NO_ITX_EXPRESSION_MATCH", `no service of this deployment answers itx.${name}`, {
        expression: `itx.${name}`,
      });
    const builtinCall = this.#callOf(address, callerPath, call, keyScope);
    if (found.kind === "remote") yield* found.provider.invoke(builtinCall, steps);
    else yield* resultParts(await evaluate(found.root, steps, builtinCall));
  }

  /** What a builtin is given: the caller's own, in the context it is called in. */
  #callOf(address: ContextAddress, callerPath: string, call: CallContext, keyScope: string | null): BuiltinCall {
    const { caller, metadata, signal } = call;
    const execution = metadata.get(credentialHeaders.execution)[0];
    return {
      address,
      callerPath,
      caller,
      credentials: { principal: caller.principal, execution: typeof execution === "string" ? execution : undefined },
      signal,
      writer: writerOf(caller, this.#parts.newChain),
      log: this.#parts.logs.of(address, call, keyScope),
      incoming: call,
    };
  }
}

/** Path of the context a call started at: where the code runs, or where a person calls. */
export function callerPathOf(start: ContextAddress, { execution }: Caller): string {
  return execution?.context ?? start.path;
}

/** True for what a project loaded; code of the platform itself is not. */
export function isLoadedCode({ execution }: Caller): boolean {
  return execution !== undefined && !execution.code.startsWith("builtin:");
}

/** @throws CodedError FORBIDDEN: loaded code reaches builtins by names and rules, which its project decides about. */
export function assertMaySpell(expression: Expression, caller: Caller): void {
  if (isLoadedCode(caller) && spellsBuiltins(expression))
    throw codedError("FORBIDDEN", "code may not spell itx.builtins; call what the rules of its context name", { step: "builtins" });
}
