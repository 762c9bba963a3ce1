/**
 * Recognises appends that are in the log already, before they join a group. What is asked in one turn of the event loop, or while
 * a question is under way, is one question: a client that resumes with a thousand retries costs two statements.
 */
import { realTimers, type Timers } from "../timers.js";
import type { AppendReceipt, ContextAddress } from "./contract.js";
import type { HeadCache } from "./head-cache.js";
import type { LogQueries } from "./log-store.js";
import { findCommitted, storedReceipts, type Keyed } from "./look-up.js";

/** Appends of one question. */
const maxAsked = 4_096;

interface Asked {
  readonly address: ContextAddress;
  readonly appendId: string;
  readonly append: Keyed;
  readonly answer: (receipts: readonly AppendReceipt[] | null) => void;
  readonly fail: (error: unknown) => void;
}

export class SentBefore {
  readonly #cache: HeadCache;
  readonly #store: LogQueries;
  readonly #timers: Timers;
  #waiting: Asked[] = [];
  #isAsking = false;

  constructor(cache: HeadCache, store: LogQueries, timers: Timers = realTimers) {
    this.#cache = cache;
    this.#store = store;
    this.#timers = timers;
  }

  /** What an append was answered when it was committed; `null` when it was not. @throws CodedError UNAVAILABLE. */
  answerOf(address: ContextAddress, appendId: string, append: Keyed): Promise<readonly AppendReceipt[] | null> {
    return new Promise((answer, fail) => {
      this.#waiting.push({ address, appendId, append, answer, fail });
      if (this.#isAsking) return;
      this.#isAsking = true;
      this.#timers.soon(() => void this.#ask());
    });
  }

  async #ask(): Promise<void> {
    while (this.#waiting.length > 0) {
      const asked = this.#waiting.splice(0, maxAsked);
      try {
        await this.#answer(asked);
      } catch (error) {
        for (const { fail } of asked) fail(error);
      }
    }
    this.#isAsking = false;
  }

  async #answer(asked: readonly Asked[]): Promise<void> {
    const heads = await this.#cache.load(asked.map(({ address }) => address));
    const born = asked.flatMap(({ appendId, append, ...asker }, index) =>
      heads[index] === undefined ? [] : [{ asker, contextId: heads[index].contextId, appendId, append }],
    );
    const known = await findCommitted(this.#store, born);
    if (known.length > 0) {
      const outcomes = await storedReceipts(this.#store, known);
      known.forEach(({ asker }, index) => {
        const outcome = outcomes[index]!;
        if (outcome instanceof Error) asker.fail(outcome);
        else asker.answer(outcome);
      });
    }
    // Those answered above take no second answer.
    for (const { answer } of asked) answer(null);
  }
}
