/**
 * The last commits of one listened-to context, shared by all its listeners: a gapless run of events up to the known head. A listener
 * whose position is not inside it reads the log instead, so its size bounds memory and costs a slow listener only time.
 */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { CommitHint, LiveEvents } from "./contract.js";

/** Per context: some thousand small events. */
export const maxRecentBytes = 262_144;

export class RecentCommits {
  #commits: CommitHint[] = [];
  #bytes = 0;
  /** All events after this offset, up to the head, are held. */
  #after: number;

  constructor(after: number) {
    this.#after = after;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Adds the commit that follows the last one. Without its events the run starts anew behind it. */
  add(commit: CommitHint): void {
    if (commit.events === undefined || commit.bytes > maxRecentBytes) return this.restart(Math.max(this.#head, commit.lastOffset));
    this.#commits.push(commit);
    this.#bytes += commit.bytes;
    let dropped = 0;
    while (this.#bytes > maxRecentBytes) {
      const oldest = this.#commits[dropped++]!;
      this.#bytes -= oldest.bytes;
      this.#after = Math.max(this.#after, oldest.lastOffset);
    }
    if (dropped > 0) this.#commits = this.#commits.slice(dropped);
  }

  /** Lets go of everything; the run goes on after `after`. */
  restart(after: number): void {
    this.#commits = [];
    this.#bytes = 0;
    this.#after = after;
  }

  take(position: number, maxEvents: number): LiveEvents | undefined {
    if (position < this.#after) return undefined;
    const events: Event[] = [];
    let through = position;
    for (const commit of this.#from(position)) {
      if (events.length > 0 && events.length + commit.events!.length > maxEvents) break;
      for (const event of commit.events!) if (Number(event.offset) > position) events.push(event);
      through = Math.max(through, commit.lastOffset);
    }
    return through === position ? undefined : { events, through };
  }

  get #head(): number {
    return this.#commits.at(-1)?.lastOffset ?? this.#after;
  }

  /** The commits that reach beyond `position`, by bisection: offsets only grow. */
  *#from(position: number): Iterable<CommitHint> {
    let low = 0;
    let high = this.#commits.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#commits[middle]!.lastOffset > position) high = middle;
      else low = middle + 1;
    }
    for (let at = low; at < this.#commits.length; at += 1) yield this.#commits[at]!;
  }
}
