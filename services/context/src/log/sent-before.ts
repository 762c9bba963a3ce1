/**
 * Recognises appends that are in the log already, before they join a group. What is asked in one turn of the event loop, or while
 * a question is under way, is one question: a client that resumes with a thousand retries costs two statements.
 */
import { appendIdBytes } from "./append-id.js";
import type { AppendReceipt, ContextAddress, SqlSession } from "./contract.js";
import type { HeadCache } from "./head-cache.js";
import { committedAppends, type AppendRow } from "./head.sql.js";
import { storedReceipts, type Keyed } from "./look-up.js";
import { int8Array, uuidArray } from "./pg-array.js";

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
  readonly #session: SqlSession;
  #waiting: Asked[] = [];
  #isAsking = false;

  constructor(cache: HeadCache, session: SqlSession) {
    this.#cache = cache;
    this.#session = session;
  }

  /** What an append was answered when it was committed; `null` when it was not. @throws CodedError UNAVAILABLE. */
  answerOf(address: ContextAddress, appendId: string, append: Keyed): Promise<readonly AppendReceipt[] | null> {
    return new Promise((answer, fail) => {
      this.#waiting.push({ address, appendId, append, answer, fail });
      if (this.#isAsking) return;
      this.#isAsking = true;
      setImmediate(() => void this.#ask());
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
    const born = asked.flatMap((one, index) => (heads[index] === undefined ? [] : [{ one, contextId: heads[index].contextId }]));
    const rows =
      born.length === 0
        ? []
        : await this.#session.query<AppendRow>(committedAppends, [
            int8Array(born.map(({ contextId }) => contextId)),
            uuidArray(born.map(({ one }) => appendIdBytes(one.appendId))),
          ]);
    const found = new Map(
      rows.map(([contextId, appendId, offset, createdAtUs]) => [
        `${contextId} ${appendId}`,
        { offset: Number(offset), createdAtUs: Number(createdAtUs) },
      ]),
    );
    const known = born.flatMap(({ one, contextId }) => {
      const first = found.get(`${contextId} ${one.appendId}`);
      return first === undefined ? [] : [{ one, contextId, appendId: one.appendId, append: one.append, first }];
    });
    if (known.length > 0) {
      const outcomes = await storedReceipts(this.#session, known);
      known.forEach(({ one }, index) => {
        const outcome = outcomes[index]!;
        if (outcome instanceof Error) one.fail(outcome);
        else one.answer(outcome);
      });
    }
    // Those answered above take no second answer.
    for (const { answer } of asked) answer(null);
  }
}
