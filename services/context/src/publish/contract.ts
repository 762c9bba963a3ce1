/** What is told about commits: by this process right after them, and by every process over the broker. */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { ContextAddress } from "../log/contract.js";

/** An ephemeral event where it is kept. */
export interface KeptEphemeral {
  readonly event: Event;
  readonly offset: number;
  /** Offset of the stored event it comes after; 0 when there is none. No other stored event will ever lie between the two. */
  readonly after: number;
  /** Bytes it may hold in memory. */
  readonly bytes: number;
}

/** How far a page of stored events reaches. */
export interface Reach {
  readonly scannedThrough: number;
  readonly isAtHead: boolean;
}

/** One commit as a hint. Nothing in it has authority: it may be late, repeated, or a lie. */
export interface CommitHint {
  readonly address: ContextAddress;
  readonly commitNo: number;
  /** Above `lastOffset` when the commit holds no event. */
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly reservedThrough: number;
  /** All events of the commit, or `undefined` when they are to be read from the log. */
  readonly events: readonly Event[] | undefined;
  /** Bytes `events` may hold in memory. */
  readonly bytes: number;
}

/** Where a context is known to be. */
export interface KnownHead {
  readonly commitNo: number;
  /** Of the last stored event. */
  readonly lastOffset: number;
  /** No ephemeral event of this commit lies above it. */
  readonly reservedThrough: number;
}

/** An ephemeral event as it is told: with the commit it follows, or is part of. */
export interface ToldEphemeral extends KeptEphemeral {
  readonly commitNo: number;
}

/** Ephemeral events of one context, in offset order. A hint like any other. */
export interface EphemeralHint {
  readonly address: ContextAddress;
  readonly events: readonly ToldEphemeral[];
}

/** Events that follow a position without a gap. */
export interface LiveEvents {
  /** In offset order; ephemeral ones for who listens to them, and those may lie above `through`. */
  readonly events: readonly Event[];
  /** Every stored event up to here is among `events`. */
  readonly through: number;
}

/** `commits`: that there are commits, for who holds no events. `all`: ephemeral events too, those that are told from now on. */
export type Heard = "commits" | "stored" | "all";

/** One listener's view of one context. It never loses a commit for good, and holds nothing for a listener that is slow. */
export interface Listening {
  /** What is known now; `undefined` until the first confirmation. */
  readonly head: KnownHead | undefined;
  /**
   * The events after `position`, as far as they are still held in memory, at most `maxEvents` beyond whole commits; `undefined`
   * when they are not held and the log must be read.
   */
  take(position: number, maxEvents: number): LiveEvents | undefined;
  /** The ephemeral events, not given before, that belong to a page of the log from `position` on which reaches so far. */
  ephemeralsWithin(position: number, reach: Reach): readonly Event[];
  /**
   * Resolves when the context has stored events after `position`, at the latest about 500 ms after they were committed, or ephemeral
   * ones that were not given; in the order in which listeners asked. Rejects with the reason of `signal`.
   */
  whenAbove(position: number, signal: AbortSignal): Promise<void>;
  /** Says that the log does not hold what the head promises: resolves once the truth was asked for, or could not be. */
  doubt(): Promise<void>;
  close(): void;
}

export interface LiveCommits {
  /** Begins to listen; commits from now on are noticed. */
  listen(address: ContextAddress, heard?: Heard): Listening;
}
