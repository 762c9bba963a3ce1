/**
 * Holds code that appends directly to the rules of the context it runs in, wherever it writes: code of a jail appends nowhere. What the
 * context that is written to says is part of the decision of its commit; of another one, the origin, it is read anew for each append, by
 * one look for all of a turn.
 */
import { partitionOf } from "@iterate-platform/service/ids";
import { assertReaches } from "../rules/jail.js";
import { isHeldToRules } from "../rules/wall.js";
import type { Timers } from "../timers.js";
import { HeadConfirmer, readableCore } from "./confirm.js";
import type { AppendCommand, ContextCache } from "./contract.js";

export interface OriginJailsParts {
  /** The contexts that are held of a partition's database. */
  readonly cacheOf: (partition: number) => ContextCache;
  readonly timers?: Timers;
}

export class OriginJails {
  readonly #parts: OriginJailsParts;
  readonly #confirmers = new Map<ContextCache, HeadConfirmer>();

  constructor(parts: OriginJailsParts) {
    this.#parts = parts;
  }

  /** True for appends that code makes directly to another context than its own. */
  governs({ address, events, writer }: AppendCommand): boolean {
    return isHeldToRules(writer) && writer.origin !== null && writer.origin !== address.path && events.length > 0;
  }

  /** @throws CodedError NO_ITX_EXPRESSION_MATCH; UNAVAILABLE (retryable) when the origin cannot be confirmed. */
  async check({ address, writer }: AppendCommand): Promise<void> {
    const origin = { owner: address.owner, path: writer.origin! };
    const head = await this.#confirmerOf(this.#parts.cacheOf(partitionOf(origin.owner, origin.path))).confirm(origin);
    if (head !== undefined) assertReaches(readableCore(head), address.path);
  }

  #confirmerOf(cache: ContextCache): HeadConfirmer {
    let confirmer = this.#confirmers.get(cache);
    if (confirmer === undefined) this.#confirmers.set(cache, (confirmer = new HeadConfirmer(cache, this.#parts.timers)));
    return confirmer;
  }

  /** Queries sent so far: what cost tests count. */
  get queries(): number {
    return [...this.#confirmers.values()].reduce((sum, { queries }) => sum + queries, 0);
  }
}
