/**
 * The registry of builtin roots: those of this service, and those that other services list. A root that a service has listed once stays
 * known while that service is away, so that a call of it is answered with UNAVAILABLE and never as if there were no such thing.
 */
import type { Root } from "@iterate-platform/proto/iterate/capability/v1/capability";
import { rootMessage } from "@iterate-platform/service/capability-service";
import { CodedError, codedError } from "iterate/lib";
import { vocabularyOfRoots } from "../rules/roots.js";
import type { ContextRoot } from "./contract.js";
import type { CapabilityProvider } from "./provider.js";
import { rootProblem } from "./root-problem.js";

export type RegisteredRoot =
  | { readonly kind: "local"; readonly root: ContextRoot; readonly words: Root }
  | { readonly kind: "remote"; readonly provider: CapabilityProvider; readonly words: Root };

export class Registry {
  readonly #local = new Map<string, RegisteredRoot>();
  readonly #providers: readonly CapabilityProvider[];

  constructor(roots: readonly ContextRoot[], providers: readonly CapabilityProvider[] = []) {
    for (const root of roots) this.add(root);
    this.#providers = providers;
  }

  /** Takes a root of this service. Throws INVALID_INPUT when its name is taken, or is not of the vocabulary of roots. */
  add(root: ContextRoot): void {
    const words = rootMessage(root);
    const problem = this.#local.has(root.name) ? "is registered already" : rootProblem(words);
    if (problem !== null)
      throw codedError("INVALID_INPUT", `the root ${JSON.stringify(root.name)} ${problem}`, { root: root.name });
    this.#local.set(root.name, { kind: "local", root, words });
  }

  /**
   * The root of a name; `undefined` when nothing of this deployment answers it.
   *
   * @throws CodedError UNAVAILABLE (retryable): a service that may answer it has not been heard yet.
   */
  find(name: string): RegisteredRoot | undefined {
    const local = this.#local.get(name);
    if (local !== undefined) return local;
    for (const provider of this.#providers) {
      const words = provider.roots.get(name);
      if (words !== undefined) return { kind: "remote", provider, words };
    }
    const unheard = this.#providers.filter(({ isHeard }) => !isHeard);
    if (unheard.length === 0 || !vocabularyOfRoots.has(name)) return undefined;
    const names = unheard.map(({ name }) => name).join(", ");
    throw new CodedError("UNAVAILABLE", `itx.${name} may be answered by ${names}, which has not been reached yet`, {
      data: { root: name, services: names },
      retryAfterMs: 1_000,
    });
  }

  /** Every root that is known, by name. */
  get all(): readonly RegisteredRoot[] {
    const names = new Set([...this.#local.keys(), ...this.#providers.flatMap(({ roots }) => [...roots.keys()])]);
    return [...names].sort().map((name) => this.find(name)!);
  }
}
