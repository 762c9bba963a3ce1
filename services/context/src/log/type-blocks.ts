/**
 * The index a read by type uses: which blocks of 1,024 offsets of a context hold a type. An index of types on the log itself
 * would cost every append 40 % of its rate; this one is entered by the first reader that needs it, block by block, once for all
 * readers, and an append pays nothing. What it costs instead: that first read looks at the whole log once (about 1 s per million
 * events, in steps that are kept even when the reader goes away), and a type that occurs everywhere is found no faster than by
 * reading everything.
 */
import type { LogStore } from "./log-store.js";

export const blockSize = 1024;
/** Blocks entered by one statement: some 65,000 events, well below any statement timeout. */
const blocksPerStep = 64;
/** Contexts whose mark is remembered; a forgotten one is read again. */
const maxMarks = 10_000;

export class TypeBlocks {
  readonly #store: LogStore;
  /** Never ahead of the database. */
  readonly #marks = new Map<number, number>();
  readonly #entering = new Map<number, Promise<void>>();

  constructor(store: LogStore) {
    this.#store = store;
  }

  /**
   * The offset below which all blocks of the context are entered, made to lie above `position` if there is a complete block to
   * enter; `through` is the context's head or below it.
   */
  async enteredBelow(contextId: number, position: number, through: number): Promise<number> {
    const complete = Math.floor((through + 1) / blockSize);
    let mark = this.#marks.get(contextId);
    if (mark === undefined || (mark * blockSize <= position + 1 && mark < complete)) mark = await this.#readMark(contextId);
    while (mark * blockSize <= position + 1 && mark < complete) {
      await this.#enter(contextId, mark, Math.min(mark + blocksPerStep, complete));
      mark = this.#marks.get(contextId) ?? (await this.#readMark(contextId));
    }
    return mark * blockSize;
  }

  async #readMark(contextId: number): Promise<number> {
    const mark = await this.#store.typeBlockMark(contextId);
    this.#keep(contextId, mark);
    return mark;
  }

  /** One step at a time for each context; whoever comes meanwhile waits for it and looks again. */
  async #enter(contextId: number, from: number, to: number): Promise<void> {
    const running = this.#entering.get(contextId);
    if (running !== undefined) return running;
    const step = this.#store.enterTypeBlocks(contextId, from, to).then(() => this.#keep(contextId, to));
    this.#entering.set(contextId, step);
    try {
      await step;
    } finally {
      this.#entering.delete(contextId);
    }
  }

  #keep(contextId: number, mark: number): void {
    const known = this.#marks.get(contextId) ?? 0;
    this.#marks.delete(contextId);
    this.#marks.set(contextId, Math.max(known, mark));
    for (const oldest of this.#marks.keys()) {
      if (this.#marks.size <= maxMarks) break;
      this.#marks.delete(oldest);
    }
  }
}
