/**
 * The offsets a process may hand out of its own memory. A commit that reserves offsets makes them its writer's: another writer starts
 * above them, so they are this process's for as long as it knows of no commit that is not its own. What it does not need any more is
 * given up and never used: after a commit of another writer, a statement of unknown outcome, a minute without use, or a restart.
 *
 * A block is held → (commit sent) lent → (commit landed) held. A lent one that comes back in another way is given up, because what was
 * sent may still land inside it.
 */
import type { ContextHead } from "./contract.js";

/** Offsets of one reservation. */
export const blockOffsets = 1_024;
/** A block without use for so long is given up, and with it the place in memory. */
export const blockIdleMs = 60_000;
const maxHeld = 50_000;

interface Block {
  readonly commitNo: number;
  readonly generation: number;
  readonly next: number;
  readonly usedAtMs: number;
  isLent: boolean;
}

export class OffsetBlocks {
  readonly #nowMs: () => number;
  /** By context id, those used last at the end. */
  readonly #blocks = new Map<number, Block>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get size(): number {
    return this.#blocks.size;
  }

  /** The next offset of the block held in this context, `null` when there is none. */
  nextOf(head: ContextHead, generation: number): number | null {
    const block = this.#blocks.get(head.contextId);
    if (block === undefined) return null;
    const isOwn = block.commitNo === head.commitNo && block.generation === generation && !block.isLent;
    if (isOwn && this.#nowMs() - block.usedAtMs <= blockIdleMs) return block.next;
    this.#blocks.delete(head.contextId);
    return null;
  }

  /** Whether the newest commit known of this context is this process's own, of those that reserved offsets or came after them. */
  isHeld({ contextId, commitNo }: ContextHead): boolean {
    return this.#blocks.get(contextId)?.commitNo === commitNo;
  }

  /** Whether `nextOf` answered an offset since anything else became of the context. */
  has(contextId: number): boolean {
    return this.#blocks.has(contextId);
  }

  /** A commit that uses the block is being sent. */
  lend(contextId: number): void {
    const block = this.#blocks.get(contextId);
    if (block !== undefined) block.isLent = true;
  }

  /** `head` is a commit of this process, and the offsets from `next` through its reserved ones are its own. */
  keep({ contextId, commitNo, generation }: ContextHead, next: number): void {
    this.#blocks.delete(contextId);
    this.#blocks.set(contextId, { commitNo, generation, next, usedAtMs: this.#nowMs(), isLent: false });
    if (this.#blocks.size > maxHeld) this.#blocks.delete(this.#blocks.keys().next().value!);
  }
}
