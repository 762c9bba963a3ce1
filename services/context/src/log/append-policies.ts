/**
 * Holds appends to the policy of their project. The policy lives in the project's root context, so what is remembered of the root is
 * confirmed for each append, together with all others of the same turn: an append that begins after a narrowing policy was acknowledged
 * never lands by the one before. It costs one look at the root's last commit for many appends, whether there is a policy or not.
 */
import { partitionOf } from "@iterate-platform/service/ids";
import { checkAgainstPolicy } from "../core/append-policy.js";
import type { AppendPolicyState } from "../core/contract.js";
import { realTimers, type Timers } from "../timers.js";
import { HeadConfirmer, readableCore } from "./confirm.js";
import type { AppendCommand, ContextCache } from "./contract.js";

/** Roots whose database is remembered. */
const maxPlaced = 10_000;

export interface AppendPoliciesParts {
  /** The contexts that are held of a partition's database. */
  readonly cacheOf: (partition: number) => ContextCache;
  readonly timers?: Timers;
}

export class AppendPolicies {
  readonly #parts: AppendPoliciesParts;
  readonly #timers: Timers;
  readonly #confirmers = new Map<ContextCache, HeadConfirmer>();
  /** By owner. */
  readonly #roots = new Map<string, HeadConfirmer>();
  /** By owner, what appends of this turn of the event loop wait for: the question is asked when all of them have begun. */
  readonly #asked = new Map<string, Promise<AppendPolicyState | null>>();

  constructor(parts: AppendPoliciesParts) {
    this.#parts = parts;
    this.#timers = parts.timers ?? realTimers;
  }

  /** True for appends that a policy may refuse: the platform's own records are beyond it, and the global contexts have none. */
  governs({ address, events, writer }: AppendCommand): boolean {
    return !writer.isPlatform && address.owner !== "global" && events.length > 0;
  }

  /** @throws CodedError FORBIDDEN; UNAVAILABLE (retryable) when the root cannot be confirmed. */
  async check({ address, events, writer }: AppendCommand): Promise<void> {
    const policy = await this.#policyOf(address.owner);
    if (policy === null) return;
    const { path } = address;
    const append = { origin: writer.origin ?? path, isPerson: writer.kind === "person", path };
    for (const { type } of events) checkAgainstPolicy(policy, { ...append, type });
  }

  #policyOf(owner: string): Promise<AppendPolicyState | null> {
    let asked = this.#asked.get(owner);
    if (asked === undefined) {
      asked = new Promise((answer, fail) => {
        this.#timers.soon(() => {
          this.#asked.delete(owner);
          const root = this.#confirmerOf(owner).confirm({ owner, path: "/" });
          root.then((head) => (head === undefined ? null : readableCore(head).appendPolicy)).then(answer, fail);
        });
      });
      this.#asked.set(owner, asked);
    }
    return asked;
  }

  #confirmerOf(owner: string): HeadConfirmer {
    const known = this.#roots.get(owner);
    if (known !== undefined) return known;
    const cache = this.#parts.cacheOf(partitionOf(owner, "/"));
    let confirmer = this.#confirmers.get(cache);
    if (confirmer === undefined) this.#confirmers.set(cache, (confirmer = new HeadConfirmer(cache, this.#timers)));
    if (this.#roots.size >= maxPlaced) this.#roots.clear();
    this.#roots.set(owner, confirmer);
    return confirmer;
  }

  /** Queries sent so far: what cost tests count. */
  get queries(): number {
    return [...this.#confirmers.values()].reduce((sum, { queries }) => sum + queries, 0);
  }
}
