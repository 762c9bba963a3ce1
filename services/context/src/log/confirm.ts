/**
 * Confirmation: what a process remembers of a context may be behind other processes, so before a caller is answered from memory
 * the last commit rows are read again. All calls of one turn of the event loop share one query, and while two are under way what
 * else is asked joins the next: a busy process confirms thousands of calls by a few hundred statements.
 */
import { realTimers, type Timers } from "../timers.js";
import type { CoreState } from "../core/contract.js";
import { isClosed, type ContextAddress, type ContextCache, type ContextHead } from "./contract.js";

/** More than one, so that a call waits for less than a round trip; few, so that they stay large under load. */
const maxQueriesInFlight = 2;
/** Contexts in one query. */
const maxPerQuery = 10_000;

/** Where a context is, never behind what was acknowledged. */
export interface Heads {
  /**
   * The head of a context at some moment after this call; `undefined` when it is not born. It reflects every append that was
   * acknowledged, through any process, before the call.
   *
   * @throws CodedError UNAVAILABLE (retryable) when the database is away.
   */
  confirm(address: ContextAddress): Promise<ContextHead | undefined>;
}

interface Asked {
  readonly address: ContextAddress;
  readonly answer: (head: ContextHead | undefined) => void;
  readonly fail: (error: unknown) => void;
}

export class HeadConfirmer implements Heads {
  readonly #cache: ContextCache;
  readonly #timers: Timers;
  #waiting: Asked[] = [];
  #isScheduled = false;
  #inFlight = 0;
  #queries = 0;

  constructor(cache: ContextCache, timers: Timers = realTimers) {
    this.#cache = cache;
    this.#timers = timers;
  }

  /** Queries sent so far: what cost tests count. */
  get queries(): number {
    return this.#queries;
  }

  confirm(address: ContextAddress): Promise<ContextHead | undefined> {
    return new Promise((answer, fail) => {
      this.#waiting.push({ address, answer, fail });
      this.#schedule();
    });
  }

  /** What is known of a context, which may be behind; asked of the database only while nothing is. `undefined` while it is not born. */
  async known(address: ContextAddress): Promise<ContextHead | undefined> {
    return this.#cache.peek(address) ?? (await this.confirm(address));
  }

  /** Lets a context go, because its name may stand for another one. */
  forget(address: ContextAddress): void {
    this.#cache.forget(address);
  }

  #schedule(): void {
    if (this.#isScheduled || this.#inFlight >= maxQueriesInFlight || this.#waiting.length === 0) return;
    this.#isScheduled = true;
    this.#timers.soon(() => {
      this.#isScheduled = false;
      const batch = this.#waiting.splice(0, maxPerQuery);
      this.#inFlight += 1;
      void this.#run(batch).finally(() => {
        this.#inFlight -= 1;
        this.#schedule();
      });
      this.#schedule();
    });
  }

  async #run(batch: readonly Asked[]): Promise<void> {
    const held = new Map<number, Asked[]>();
    const unknown: Asked[] = [];
    for (const asked of batch) {
      const id = this.#cache.peek(asked.address)?.contextId;
      if (id === undefined) unknown.push(asked);
      else if (held.has(id)) held.get(id)!.push(asked);
      else held.set(id, [asked]);
    }
    await Promise.all([
      settle([...held.values()].flat(), async () => {
        if (held.size === 0) return;
        this.#queries += 1;
        const heads = new Map((await this.#cache.refresh([...held.keys()])).map((head) => [head.contextId, head]));
        const replaced: Asked[] = [];
        for (const [id, all] of held) {
          const head = heads.get(id);
          if (head === undefined || isClosed(head)) replaced.push(...all);
          else for (const asked of all) asked.answer(bornOnly(head));
        }
        if (replaced.length > 0) await this.#load(replaced);
      }),
      settle(unknown, async () => {
        if (unknown.length > 0) await this.#load(unknown);
      }),
    ]);
  }

  async #load(asked: readonly Asked[]): Promise<void> {
    this.#queries += 1;
    const heads = await this.#cache.load(asked.map(({ address }) => address));
    asked.forEach(({ answer }, at) => answer(bornOnly(heads[at])));
  }
}

async function settle(all: readonly Asked[], work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    for (const asked of all) asked.fail(error);
  }
}

/**
 * The core state of a context. Throws UPGRADE_REQUIRED, retryable, when this release cannot read all of it: a decision of authority must
 * not rest on a part.
 */
export function readableCore({ core, unreadable }: ContextHead): CoreState {
  if (unreadable !== undefined) throw unreadable;
  return core;
}

/** A context's row is made before its first commit: until then it is not born. One that is being replaced is gone. */
function bornOnly(head: ContextHead | undefined): ContextHead | undefined {
  return head === undefined || head.commitNo === 0 || isClosed(head) ? undefined : head;
}
