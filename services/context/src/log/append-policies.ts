/**
 * Holds appends to the policy of their project, which lives in the project's root context: an append that begins after a narrowing
 * policy was acknowledged never lands by the one before. An append is admitted by what is remembered of the root, under a guard that its
 * commit proves: nothing lands once the root has a newer control event, and the append is then judged anew. Where a commit cannot
 * prove it (an event is not stored, the root is in another database or not held, the append would be refused), the root is confirmed
 * first, by one look for all appends of a turn.
 */
import { partitionOf } from "@iterate-platform/service/ids";
import { itx } from "iterate/events";
import { checkAgainstPolicy } from "../core/append-policy.js";
import type { AppendPolicyState, CoreState } from "../core/contract.js";
import { realTimers, type Timers } from "../timers.js";
import { HeadConfirmer, readableCore } from "./confirm.js";
import type { Writer } from "../caller/contract.js";
import type { AppendCommand, ContextCache, PolicyGuard } from "./contract.js";

/** Roots whose database is remembered. */
const maxPlaced = 10_000;

export interface AppendPoliciesParts {
  /** The contexts that are held of a partition's database. */
  readonly cacheOf: (partition: number) => ContextCache;
  readonly timers?: Timers;
}

interface Root {
  readonly cache: ContextCache;
  readonly confirmer: HeadConfirmer;
  /** The one given last: appends of one state of the root share it. */
  guard: PolicyGuard | null;
}

export class AppendPolicies {
  readonly #parts: AppendPoliciesParts;
  readonly #timers: Timers;
  readonly #confirmers = new Map<ContextCache, HeadConfirmer>();
  /** By owner. */
  readonly #roots = new Map<string, Root>();
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

  /** What the append's commit must prove, once memory admits the append; `undefined` when the root must be confirmed first. */
  guardOf(command: AppendCommand, cache: ContextCache): PolicyGuard | undefined {
    const { address, events, writer } = command;
    const root = this.#rootOf(address.owner);
    if (root.cache !== cache || events.some(({ isEphemeral }) => isEphemeral)) return undefined;
    const head = cache.peek({ owner: address.owner, path: "/" });
    if (head === undefined) return undefined;
    try {
      checkPolicy(readableCore(head), address.path, writer, events);
    } catch {
      return undefined;
    }
    const { contextId, lastControl } = head;
    if (root.guard?.contextId !== contextId || root.guard.lastControl !== lastControl) root.guard = { contextId, lastControl };
    return root.guard;
  }

  /** @throws CodedError FORBIDDEN; UNAVAILABLE (retryable) when the root cannot be confirmed. */
  async check({ address, events, writer }: AppendCommand): Promise<void> {
    const appendPolicy = await this.#policyOf(address.owner);
    checkPolicy({ appendPolicy }, address.path, writer, events);
  }

  #policyOf(owner: string): Promise<AppendPolicyState | null> {
    let asked = this.#asked.get(owner);
    if (asked === undefined) {
      asked = new Promise((answer, fail) => {
        this.#timers.soon(() => {
          this.#asked.delete(owner);
          const root = this.#rootOf(owner).confirmer.confirm({ owner, path: "/" });
          root.then((head) => (head === undefined ? null : readableCore(head).appendPolicy)).then(answer, fail);
        });
      });
      this.#asked.set(owner, asked);
    }
    return asked;
  }

  #rootOf(owner: string): Root {
    const known = this.#roots.get(owner);
    if (known !== undefined) return known;
    const cache = this.#parts.cacheOf(partitionOf(owner, "/"));
    let confirmer = this.#confirmers.get(cache);
    if (confirmer === undefined) this.#confirmers.set(cache, (confirmer = new HeadConfirmer(cache, this.#timers)));
    if (this.#roots.size >= maxPlaced) this.#roots.clear();
    const root = { cache, confirmer, guard: null };
    this.#roots.set(owner, root);
    return root;
  }

  /** Queries sent so far: what cost tests count. */
  get queries(): number {
    return [...this.#confirmers.values()].reduce((sum, { queries }) => sum + queries, 0);
  }
}

/** @throws CodedError FORBIDDEN when the policy of the root refuses an append of these events to `path`; the record of a firing is the platform's. */
export function checkPolicy(
  { appendPolicy }: Pick<CoreState, "appendPolicy">,
  path: string,
  writer: Writer,
  events: readonly { readonly type: string }[],
): void {
  if (appendPolicy === null) return;
  const append = { origin: writer.origin ?? path, isPerson: writer.kind === "person", path };
  for (const { type } of events) if (type !== itx.scheduleFired.type) checkAgainstPolicy(appendPolicy, { ...append, type });
}
