/**
 * What a process knows of one context that someone listens to.
 *
 * Unknown → (first confirmation) → at commit n. A hint of n+1 moves it to n+1; a hint of an earlier commit is dropped; a hint of a
 * later one, or one that does not fit, moves nothing and asks for a confirmation. A confirmation always wins: it moves the head
 * forward over lost hints, and back if a hint had told of a commit that does not exist.
 */
import type { CommitHint, EphemeralHint, KnownHead, LiveEvents } from "./contract.js";
import { LiveEphemerals } from "./live-ephemerals.js";
import { RecentCommits } from "./recent-commits.js";

interface Waiting {
  readonly position: number;
  /** Offset of the newest ephemeral event that was given; `undefined` for who does not listen to them. */
  readonly seen: number | undefined;
  readonly resolve: () => void;
}

/** What was known when a confirmation was asked for: only what is older can be contradicted by its answer. */
export type AskedAt = KnownHead | undefined;

export class Watch {
  #head: KnownHead | undefined;
  #hinted = 0;
  readonly #recent = new RecentCommits(0);
  readonly ephemerals = new LiveEphemerals();
  /** In the order in which they asked. */
  readonly #waiting = new Set<Waiting>();

  get head(): KnownHead | undefined {
    return this.#head;
  }

  /** Bytes of events held. */
  get bytes(): number {
    return this.#recent.bytes + this.ephemerals.bytes;
  }

  /** Takes ephemeral events; who waits for them is woken. */
  tell({ events }: EphemeralHint): void {
    let isAccepted = false;
    for (const told of events) isAccepted = this.ephemerals.tell(told, this.#head) || isAccepted;
    if (isAccepted) this.#wake();
  }

  /** The truth is being asked for: answers what is known now, for `confirm`. */
  ask(): AskedAt {
    this.ephemerals.asked();
    return this.#head;
  }

  /** Answers true when the hint cannot be used and the truth should be asked for. */
  hint(commit: CommitHint): boolean {
    const head = this.#head;
    if (head === undefined || commit.commitNo > head.commitNo + 1) return this.#isNews(commit.commitNo);
    if (commit.commitNo <= head.commitNo) return false;
    if (!follows(head, commit)) return true;
    this.#recent.add(commit);
    this.#advance({
      commitNo: commit.commitNo,
      lastOffset: Math.max(head.lastOffset, commit.lastOffset),
      reservedThrough: commit.reservedThrough,
    });
    return false;
  }

  /** Takes the truth as it was at some moment after `askedAt`. Answers true when it should be asked for again at once. */
  confirm(truth: KnownHead, askedAt: AskedAt): boolean {
    const head = this.#head;
    const wasLiedTo =
      askedAt !== undefined &&
      (truth.commitNo < askedAt.commitNo || (truth.commitNo === askedAt.commitNo && !isSame(truth, askedAt)));
    if (wasLiedTo) this.ephemerals.forget();
    if (head === undefined || truth.commitNo > head.commitNo || wasLiedTo) {
      this.#recent.restart(truth.lastOffset);
      this.#advance(truth);
    }
    this.ephemerals.confirmed(truth);
    const isBehind = this.#hinted > this.#head!.commitNo;
    // Asked for once: a hint of a commit that never comes must not keep the process asking.
    this.#hinted = 0;
    return isBehind;
  }

  /** Stored events alone. */
  take(position: number, maxEvents: number): LiveEvents | undefined {
    return this.#recent.take(position, maxEvents);
  }

  /** Lets go of the events held; listeners read them from the log. */
  forget(): void {
    this.#recent.restart(this.#head?.lastOffset ?? 0);
    this.ephemerals.forget();
  }

  whenAbove(position: number, seen: number | undefined, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    if (this.#isAbove(position, seen)) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const abandon = (): void => {
        this.#waiting.delete(waiting);
        reject(signal.reason as Error);
      };
      const waiting: Waiting = {
        position,
        seen,
        resolve: () => {
          signal.removeEventListener("abort", abandon);
          resolve();
        },
      };
      this.#waiting.add(waiting);
      signal.addEventListener("abort", abandon, { once: true });
    });
  }

  #isNews(commitNo: number): boolean {
    const isNews = commitNo > this.#hinted;
    this.#hinted = Math.max(this.#hinted, commitNo);
    return isNews;
  }

  #advance(head: KnownHead): void {
    const lastOffset = this.#head?.lastOffset ?? head.lastOffset;
    this.#head = head;
    this.ephemerals.moved(head, lastOffset);
    this.#wake();
  }

  #isAbove(position: number, seen: number | undefined): boolean {
    return (this.#head?.lastOffset ?? 0) > position || (seen !== undefined && this.ephemerals.newest > seen);
  }

  #wake(): void {
    for (const waiting of this.#waiting) {
      if (!this.#isAbove(waiting.position, waiting.seen)) continue;
      this.#waiting.delete(waiting);
      waiting.resolve();
    }
  }
}

function isSame(one: KnownHead, other: KnownHead): boolean {
  return one.lastOffset === other.lastOffset && one.reservedThrough === other.reservedThrough;
}

function follows(head: KnownHead, { firstOffset, lastOffset, events }: CommitHint): boolean {
  if (lastOffset < firstOffset) return events === undefined || events.length === 0;
  if (firstOffset <= head.lastOffset) return false;
  if (events === undefined) return true;
  let previous = firstOffset - 1;
  for (const { offset } of events) {
    if (Number(offset) <= previous) return false;
    previous = Number(offset);
  }
  return events.length > 0 && previous <= lastOffset;
}
