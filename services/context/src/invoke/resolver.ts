/**
 * Follows an expression from the context it starts at, through those its rules lead to, to the root that answers it. Each context is
 * confirmed before its rules are used, so that a call which begins after a narrowing rule was acknowledged never goes by the older one.
 */
import { nearestName } from "iterate/events";
import { nameOf, startsAtBuiltins, stepsOf, type Expression, type Step } from "iterate/expression";
import { codedError, errorCode, isCodedError, resolveContextPath } from "iterate/lib";
import { initialCore } from "../core/fold.js";
import { readableCore, type Heads } from "../log/confirm.js";
import type { ContextAddress } from "../log/contract.js";
import type { Resolution, Roots, RuleRow, RuleTable } from "../rules/contract.js";
import { resolve } from "../rules/resolve.js";
import { ruleTable } from "../rules/table.js";
import { invokeLimits } from "./contract.js";

/** Where an expression ended. */
export interface Resolved {
  /** The context whose builtin answers. */
  readonly address: ContextAddress;
  readonly root: string;
  /** From the root's own step on. */
  readonly steps: readonly Step[];
  /** The rows it went through, with the context each stands in. */
  readonly via: readonly { readonly address: ContextAddress; readonly row: RuleRow }[];
}

export interface ResolverParts {
  readonly heads: Heads;
  readonly roots: Roots & { readonly names: readonly string[] };
}

export class Resolver {
  readonly #parts: ResolverParts;

  constructor(parts: ResolverParts) {
    this.#parts = parts;
  }

  /**
   * @param caller path of the context the call started at.
   * @throws CodedError NO_ITX_EXPRESSION_MATCH naming what was meant, perhaps, or after 16 contexts; INVALID_INPUT, EXPRESSION_TOO_LONG,
   * INVALID_CONTEXT; UNAVAILABLE and UPGRADE_REQUIRED, retryable.
   */
  async resolve(start: ContextAddress, expression: Expression, caller: string): Promise<Resolved> {
    const via: Resolved["via"][number][] = [];
    let address = start;
    let asked = expression;
    for (let crossed = 0; ; crossed += 1) {
      if (crossed > invokeLimits.crossings)
        throw codedError(
          "NO_ITX_EXPRESSION_MATCH",
          `the rules lead through more than ${invokeLimits.crossings} contexts, the last of them ${address.path}`,
          { limit: invokeLimits.crossings, path: address.path },
        );
      const resolution = await this.resolveIn(address, asked, caller);
      for (const row of resolution.via) via.push({ address, row });
      if (resolution.kind === "builtin") return { address, root: resolution.root, steps: resolution.steps, via };
      address = { owner: address.owner, path: resolveContextPath(address.path, resolution.path) };
      asked = resolution.expression;
    }
  }

  /** One context's part of it. Throws as `resolve`. */
  async resolveIn(address: ContextAddress, expression: Expression, caller: string): Promise<Resolution> {
    const head = await this.#parts.heads.confirm(address);
    const table = ruleTable(head === undefined ? initialCore : readableCore(head));
    const isRoot = address.path === "/" || address.owner === "global";
    try {
      return resolve({ table, roots: this.#parts.roots, isRoot, expression, caller });
    } catch (thrown) {
      throw this.#withHint(thrown, expression, table, isRoot);
    }
  }

  /** Says what may have been meant by a name that nothing answers. */
  #withHint(thrown: unknown, expression: Expression, table: RuleTable, isRoot: boolean): unknown {
    if (!isCodedError(thrown) || errorCode(thrown) !== "NO_ITX_EXPRESSION_MATCH" || "maskedBy" in thrown.data) return thrown;
    const first = stepsOf(expression)[startsAtBuiltins(expression) ? 1 : 0];
    if (first === undefined) return thrown;
    const name = nameOf(first);
    const { roots } = this.#parts;
    if (!isRoot && roots.has(name) && !roots.isContextRoot(name))
      return codedError("NO_ITX_EXPRESSION_MATCH", `${thrown.message}; the root of the project answers it: itx.cd("/").${name}`, {
        ...thrown.data,
        nearest: `itx.cd("/").${name}`,
      });
    const answered = roots.names.filter((root) => isRoot || startsAtBuiltins(expression) || roots.isContextRoot(root));
    const ruled = Object.values(table).flatMap(({ match, target }) => {
      const step = stepsOf(match)[0];
      return target === null || step === undefined ? [] : [nameOf(step)];
    });
    const nearest = nearestName(name, [...ruled, ...answered]);
    if (nearest === null) return thrown;
    return codedError("NO_ITX_EXPRESSION_MATCH", `${thrown.message}; did you mean itx.${nearest}?`, {
      ...thrown.data,
      nearest: `itx.${nearest}`,
    });
  }
}
