/**
 * The ephemeral events that are told of one listened-to context. One is stamped with the commit it follows: at that commit it is
 * accepted and given to listeners in its place among the stored events; told before that commit is known here it waits; told after a
 * later one it is dropped, so that a writer who was superseded cannot reorder anything. What is accepted or waits is bounded, oldest
 * and newest out; all of it may be lost.
 */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { KnownHead, Reach, ToldEphemeral } from "./contract.js";
import { belongsTo } from "./merge-events.js";

/** Accepted events of one context, for listeners that are a little behind; the newest is held whatever its size. */
export const maxAcceptedBytes = 1_048_576;
/** Events of one context whose commit is not known yet; the first of them waits whatever its size. */
export const maxWaitingBytes = 1_048_576;

interface Waiting {
  readonly told: ToldEphemeral;
  /** It was there when the truth was last asked for: the answer must know its commit. */
  isAsked: boolean;
}

export class LiveEphemerals {
  #accepted: ToldEphemeral[] = [];
  #waiting: Waiting[] = [];
  #acceptedBytes = 0;
  #waitingBytes = 0;
  #newest = 0;
  /** The last stored offset before the head moved to where it is. */
  #before = Infinity;
  #dropped = 0;

  /** Bytes held. */
  get bytes(): number {
    return this.#acceptedBytes + this.#waitingBytes;
  }

  /** Offset of the newest event that was accepted; 0 while there is none. */
  get newest(): number {
    return this.#newest;
  }

  /** Events that were told and will not be given to anyone. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Takes what is told of a context known to be at `head`. Answers whether it was accepted. */
  tell(told: ToldEphemeral, head: KnownHead | undefined): boolean {
    if (head !== undefined && told.commitNo === head.commitNo) return this.#accept(told, head);
    const hasRoom = this.#waiting.length === 0 || this.#waitingBytes + told.bytes <= maxWaitingBytes;
    if ((head !== undefined && told.commitNo < head.commitNo) || !hasRoom) {
      this.#dropped += 1;
      return false;
    }
    this.#waiting.push({ told, isAsked: false });
    this.#waitingBytes += told.bytes;
    return false;
  }

  /** The context moved from the stored offset `lastOffset` on to `head`. Answers whether something was accepted. */
  moved(head: KnownHead, lastOffset: number): boolean {
    this.#before = lastOffset;
    if (this.#waiting.length === 0) return false;
    let isAccepted = false;
    this.#keepWaiting(({ told }) => {
      if (told.commitNo > head.commitNo) return true;
      if (told.commitNo === head.commitNo) isAccepted = this.#accept(told, head) || isAccepted;
      else this.#dropped += 1;
      return false;
    });
    return isAccepted;
  }

  /** The truth is being asked for. */
  asked(): void {
    for (const waiting of this.#waiting) waiting.isAsked = true;
  }

  /** The truth is known: who waited for a commit that does not exist waits for ever. */
  confirmed({ commitNo }: KnownHead): void {
    this.#keepWaiting(({ told, isAsked }) => {
      if (!isAsked || told.commitNo <= commitNo) return true;
      this.#dropped += 1;
      return false;
    });
  }

  /** The accepted events above `seen` that belong to a page of stored events which reaches so far. */
  within(seen: number, reach: Reach): readonly Event[] {
    const events: Event[] = [];
    for (let at = this.#firstAbove(seen); at < this.#accepted.length; at += 1) {
      const told = this.#accepted[at]!;
      if (belongsTo(told, reach)) events.push(told.event);
    }
    return events;
  }

  forget(): void {
    this.#accepted = [];
    this.#waiting = [];
    this.#acceptedBytes = 0;
    this.#waitingBytes = 0;
  }

  /** Behind the stored events of its commit, or between them: then it is for those alone who were not given what comes after it. */
  #accept(told: ToldEphemeral, head: KnownHead): boolean {
    const { offset, after, bytes } = told;
    const isBehind = offset > head.lastOffset && offset <= head.reservedThrough && after === head.lastOffset;
    const isBetween = offset < head.lastOffset && after >= this.#before && after < offset;
    if (offset <= this.#newest || !(isBehind || isBetween)) {
      this.#dropped += 1;
      return false;
    }
    this.#accepted.push(told);
    this.#acceptedBytes += bytes;
    this.#newest = offset;
    let gone = 0;
    for (; this.#acceptedBytes > maxAcceptedBytes && gone < this.#accepted.length - 1; gone += 1)
      this.#acceptedBytes -= this.#accepted[gone]!.bytes;
    if (gone > 0) this.#accepted.splice(0, gone);
    return true;
  }

  /** By bisection: there are thousands, and every listener comes for the newest. */
  #firstAbove(seen: number): number {
    let low = 0;
    let high = this.#accepted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#accepted[middle]!.offset > seen) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #keepWaiting(isKept: (waiting: Waiting) => boolean): void {
    const kept: Waiting[] = [];
    this.#waitingBytes = 0;
    for (const waiting of this.#waiting) {
      if (!isKept(waiting)) continue;
      kept.push(waiting);
      this.#waitingBytes += waiting.told.bytes;
    }
    this.#waiting = kept;
  }
}
