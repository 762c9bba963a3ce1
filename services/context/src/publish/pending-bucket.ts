/**
 * What is to be told of one bucket's commits in its next messages. Commits keep their events while the next message has room for
 * them; beyond that a context is told by its last commit alone, so what waits grows with the number of contexts, never of commits.
 */
import { CommitBatch, type Commit } from "@iterate-platform/proto/iterate/context/v1/feed";
import type { CommittedContext } from "../log/contract.js";
import { committedBytes, committedEvents } from "./committed-events.js";

/** Events in one message. */
export const maxInlinedBytes = 262_144;
/** One message, estimated from above; the broker takes 1 MiB. */
const maxMessageBytes = 786_432;
/** What a commit takes without its events, beside owner and path. */
const commitBytes = 192;

interface Pending {
  readonly commit: CommittedContext;
  readonly atUs: number;
  readonly isInlined: boolean;
  readonly bytes: number;
}

export class PendingBucket {
  /** By context id, in the order in which contexts came; each in commit order, at most the last without its events. */
  readonly #contexts = new Map<number, Pending[]>();
  #inlinedBytes = 0;
  #bytes = 0;

  /** Bytes held, estimated. */
  get bytes(): number {
    return this.#bytes;
  }

  get isEmpty(): boolean {
    return this.#contexts.size === 0;
  }

  /** Answers false, holding nothing of it, when the commit would take more than `roomBytes`. */
  add(commit: CommittedContext, atUs: number, roomBytes: number): boolean {
    const held = this.#contexts.get(commit.head.contextId);
    const last = held?.at(-1);
    const isFollowed = last === undefined || last.isInlined;
    const eventBytes = committedBytes(commit);
    const isInlined = isFollowed && this.#inlinedBytes + eventBytes <= maxInlinedBytes;
    const pending: Pending = {
      commit: isInlined ? commit : { ...commit, rows: [] },
      atUs,
      isInlined,
      bytes: headBytes(commit) + (isInlined ? eventBytes : 0),
    };
    const replaced = isFollowed ? 0 : last.bytes;
    if (pending.bytes - replaced > roomBytes) return false;
    if (isInlined) this.#inlinedBytes += eventBytes;
    this.#bytes += pending.bytes - replaced;
    if (held === undefined) this.#contexts.set(commit.head.contextId, [pending]);
    else if (isFollowed) held.push(pending);
    else held[held.length - 1] = pending;
    return true;
  }

  /** Takes the next message out, as it goes on the wire; `undefined` when there is none. */
  take(): { readonly body: Uint8Array; readonly commits: number } | undefined {
    const commits: Commit[] = [];
    let bytes = 0;
    for (const [contextId, held] of this.#contexts) {
      const size = held.reduce((sum, pending) => sum + pending.bytes, 0);
      if (commits.length > 0 && bytes + size > maxMessageBytes) break;
      bytes += size;
      for (const pending of held) commits.push(message(pending));
      this.#contexts.delete(contextId);
    }
    if (commits.length === 0) return undefined;
    this.#bytes -= bytes;
    this.#inlinedBytes = 0;
    return { body: CommitBatch.encode({ commits }).finish(), commits: commits.length };
  }
}

function headBytes({ head: { address } }: CommittedContext): number {
  return commitBytes + address.owner.length + 3 * address.path.length;
}

function message({ commit, atUs, isInlined }: Pending): Commit {
  const { head, firstOffset, lastOffset } = commit;
  return {
    context: { owner: head.address.owner, path: head.address.path },
    partition: head.partition,
    commitNo: BigInt(commit.commitNo),
    firstOffset: BigInt(firstOffset),
    lastOffset: BigInt(lastOffset),
    lastControl: BigInt(head.lastControl),
    traceparent: commit.traceparent ?? "",
    atUs: BigInt(atUs),
    events: isInlined ? committedEvents(commit.rows, atUs) : [],
    inlined: isInlined,
    reservedThrough: BigInt(head.reservedThrough),
  };
}
