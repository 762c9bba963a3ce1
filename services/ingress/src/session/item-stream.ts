/**
 * One client's stream of what a call answers: one item at a time, the next when the last was taken, for as long as the client, its socket
 * and the stream live. It does not go on by itself after a loss: only who knows the call can say from where.
 */
import { codedError } from "iterate/lib";
import { LongAnswer, type LongAnswerOptions } from "./long-answer.js";

export interface ItemStreamOptions extends LongAnswerOptions {
  readonly items: AsyncIterable<unknown>;
  /** Answers once the client has taken the item. */
  readonly deliver: (item: unknown) => Promise<void>;
}

export class ItemStream extends LongAnswer {
  constructor(options: ItemStreamOptions) {
    super(options, (signal) => run(options, signal));
  }
}

async function run({ items, deliver }: ItemStreamOptions, signal: AbortSignal): Promise<void> {
  const gone = new Promise<"gone">((resolve) => {
    if (signal.aborted) resolve("gone");
    else signal.addEventListener("abort", () => resolve("gone"), { once: true });
  });
  const reader = items[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await Promise.race([reader.next(), gone]);
      if (next === "gone" || next.done === true) return;
      const taken = deliver(next.value).catch((error: unknown) => {
        throw codedError("CODE_FAILED", `the callback failed: ${error instanceof Error ? error.message : String(error)}`);
      });
      if ((await Promise.race([taken, gone])) === "gone") return;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    // A call that is cut off may never answer this.
    void reader.return?.()?.catch(() => undefined);
  }
}
