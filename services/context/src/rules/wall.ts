/**
 * The wall around loaded code: the tables that decide what names mean may lead to `itx.builtins`, past every rule, only where someone
 * else than code wrote so. Code travels through such rows; it makes none.
 */
import { itx } from "iterate/events";
import { spellsBuiltins, type Expression } from "iterate/expression";
import { codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";

/** Whether a writer is code of a project, as against people and the platform. */
export function isLoadedCode({ kind, isPlatform }: Writer): boolean {
  return kind === "code" && !isPlatform;
}

/** Whether the rules of contexts are still to be asked about an append: of code, unless they have answered the call that makes it. */
export function isHeldToRules(writer: Writer): boolean {
  return isLoadedCode(writer) && writer.isByRules !== true;
}

/** Throws FORBIDDEN when this writer may not append this control event, whatever the context. `payload` has the shape of its type. */
export function checkWall(type: string, payload: unknown, writer: Writer): void {
  if (writer.isPlatform) return;
  const { match, target, ifTarget } = payload as {
    readonly match?: Expression;
    readonly target?: Expression | null;
    readonly ifTarget?: Expression;
  };
  const isRule = type === itx.rewriteRuleConfigured.type;
  if (isRule && itx.isConfigMatch(match!))
    throw codedError("FORBIDDEN", "only the platform appends the rule itx.config: push to the project's repository", { type });
  if (!isLoadedCode(writer)) return;
  if (isRule && ifTarget !== undefined)
    throw codedError("FORBIDDEN", "code may not take a rule away by its target; append it with a null target", { type });
  if (Array.isArray(target) && spellsBuiltins(target))
    throw codedError("FORBIDDEN", "code may not name what is below itx.builtins; name what the context answers to itx", { type });
}
