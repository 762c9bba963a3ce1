/**
 * The database of one shard as the log sees it: facts of contexts, commits, events and the feed, each call one atomic look or one
 * atomic change. Whoever decides (plans, caches, readers) stands above it; how it is asked stands below.
 *
 * Every call may fail with CodedError UNAVAILABLE (retryable): the store is away, and a call that changes something may or may not
 * have been applied. Any other error says that the store refused the call and changed nothing.
 */
import type { ConcernRow } from "../core/fold.js";
import type { ContextAddress, ContextHead, PolicyGuard } from "./contract.js";
import type { PlannedCommit, StoredKey } from "./plan.js";
import type { DueChange, ScheduleStore } from "../schedules/contract.js";

/** The last commit row of a context. */
export type LastCommit = Pick<
  ContextHead,
  "contextId" | "commitNo" | "lastOffset" | "reservedThrough" | "lastControl" | "runnerEpoch" | "generation"
>;

/** A context that has a row. */
export interface StoredHead {
  readonly address: ContextAddress;
  readonly contextId: number;
  readonly createdAtUs: number;
  /** `null` while it is not born. */
  readonly last: LastCommit | null;
  /** Last offset of the commit `last.lastControl`; `null` when there is none, or that commit is gone. */
  readonly controlThrough: number | null;
  /** Rows of the reducer version that was asked for. */
  readonly core: readonly ConcernRow[];
}

/** Offsets of one context above `after` and through `through`. */
export interface OffsetRange {
  readonly contextId: number;
  readonly after: number;
  readonly through: number;
}

export interface StoredControl {
  readonly contextId: number;
  readonly offset: number;
  readonly type: string;
  readonly formatVersion: number;
  /** JSON text. */
  readonly payload: string | null;
}

/** An event that has an idempotency key, and the key. */
export interface TakenKey extends StoredKey {
  readonly contextId: number;
  readonly key: string;
}

export interface AppendName {
  readonly contextId: number;
  /** Canonical text of a UUID. */
  readonly appendId: string;
}

/** Where the first new event of a committed append is. */
export interface CommittedAppend extends AppendName {
  readonly offset: number;
  readonly createdAtUs: number;
}

/** At most `count` events of a context from `firstOffset` on. */
export interface BodyRange {
  readonly contextId: number;
  readonly firstOffset: number;
  readonly count: number;
}

export interface StoredBody {
  readonly offset: number;
  /** Set on the first event of an append. */
  readonly appendId: string | null;
  readonly type: string;
  readonly payload: string | null;
  readonly metadata: string | null;
  readonly idempotencyKey: string | null;
  /** Its bodies were given up with the part of the log it is in; so were events after it that have no key. */
  readonly isBare?: true;
}

/** A context that got its row. */
export interface MadeContext {
  readonly address: ContextAddress;
  readonly contextId: number;
  readonly createdAtUs: number;
}

/** A planned commit of a context that has its id. */
export interface CommitToWrite {
  readonly contextId: number;
  readonly commit: PlannedCommit;
  /** Rows of the concerns that the commit changed. */
  readonly core: readonly ConcernRow[];
  /** It lands only while all of them hold; all of one root. */
  readonly guards: readonly PolicyGuard[];
  /** What it changes of the context's due rows. */
  readonly due: readonly DueChange[];
}

/** Commits of several contexts, written together. */
export interface CommitGroup {
  /** Generation of the shard they were planned in. */
  readonly generation: number;
  /** This process, in commit rows. */
  readonly writer: number;
  /** Version of the reducers that made the core rows. */
  readonly reducerVersion: number;
  /** At most one for each context. */
  readonly commits: readonly CommitToWrite[];
  /** The number of each type among the rows. */
  readonly typeNumber: (name: string) => number;
}

/** What became of a group. A context in neither part lost the fence, a guard of it does not hold, or the shard has another generation. */
export interface CommitAnswer {
  /** Time of the commit, of all that landed. */
  readonly atUs: number;
  /** Ids of the contexts whose commit landed, whole. */
  readonly landed: ReadonlySet<number>;
  /** By context id, the keys to check that turned out to be taken: nothing of such a context landed. */
  readonly taken: ReadonlyMap<number, readonly TakenKey[]>;
}

/** Questions the write side asks, each of many contexts at once, on a connection of its own or on any. */
export interface LogQueries {
  /** Raised when the database was restored from a backup. */
  generation(): Promise<number>;
  /** Those of `addresses` that have a row, in any order, with the core rows of one version of the reducers. */
  loadHeads(addresses: readonly ContextAddress[], reducerVersion: number): Promise<StoredHead[]>;
  loadHeadsById(contextIds: readonly number[], reducerVersion: number): Promise<StoredHead[]>;
  /** Last commits of those contexts that are born. */
  lastCommits(contextIds: readonly number[]): Promise<LastCommit[]>;
  /** Control events in the ranges, the first `limit` of each, in the order of offsets within a context. */
  controlEvents(ranges: readonly OffsetRange[], limit: number): Promise<StoredControl[]>;
  /** Those of `keys` that are taken in the context. */
  takenKeys(contextId: number, keys: readonly string[]): Promise<TakenKey[]>;
  /** Those of `appends` that are committed and wrote an event. */
  committedAppends(appends: readonly AppendName[]): Promise<CommittedAppend[]>;
  /** The events of each range, in order: one list for each. */
  storedBodies(ranges: readonly BodyRange[]): Promise<StoredBody[][]>;
  /** Makes the rows of contexts that have none; one that another process makes at the same time is not answered: load it. */
  makeContexts(contexts: readonly Pick<ContextHead, "address" | "partition">[]): Promise<MadeContext[]>;
  /** Numbers of those of `names` that have one. A number never changes. */
  typeNumbers(names: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Gives a number to each of `names` that has none. */
  addTypes(names: readonly string[]): Promise<void>;
}

/**
 * One connection that commits: its calls follow each other. Opened at first use, opened again after a loss.
 */
export interface LogLane extends LogQueries {
  /**
   * Commits each context of the group, or leaves it untouched: the one who inserts commit number n of a context owns it. A group is
   * one atomic change that takes its contexts in the order of their ids. Fails, with nothing written, when an append of it is in the
   * log already.
   */
  commit(group: CommitGroup): Promise<CommitAnswer>;
  /**
   * Takes the next commit number of a context, in a transaction: until its end nobody else commits to the context. Answers the
   * commit before it, or `null` when another process was faster.
   */
  claimNextCommit(contextId: number): Promise<LastCommit | null>;
  /** `commit` of the one context that this transaction has claimed. */
  commitClaimed(group: CommitGroup): Promise<CommitAnswer>;
  /**
   * Runs `work` in a transaction: committed when it answers true, undone otherwise. After any failure the connection is given up, so
   * that nothing which follows can see, or believe, what was never committed.
   */
  transaction(work: () => Promise<boolean>): Promise<void>;
  /** Gives the connection up, whatever it was doing. */
  drop(): void;
  /** Gives the connection back. */
  close(): void;
}

/** Bodies of an event up to so many bytes, together, are answered with a page; larger ones are asked for apart. */
export const smallBodyBytes = 8_192;

/** An event as a page holds it. */
export interface StoredEvent {
  readonly offset: number;
  readonly type: number;
  readonly formatVersion: number;
  readonly createdAtUs: number;
  /** JSON of the stamped source. */
  readonly source: string;
  readonly traceparent: string | null;
  readonly idempotencyKey: string | null;
  /** JSON text; `null` also when both bodies are larger than `smallBodyBytes`. */
  readonly payload: string | null;
  readonly metadata: string | null;
  /** Bytes of both bodies. */
  readonly bodyBytes: number;
}

/**
 * An event as a copy hands it over: its texts are UTF-8 in `memory`, each from one place to its end, and an end of −1 is no text. It
 * holds for the moment of the call alone: the next event is in the same object.
 */
export interface EventBytes {
  readonly memory: Buffer;
  readonly offset: number;
  readonly type: number;
  readonly formatVersion: number;
  readonly createdAtUs: number;
  /** JSON of the stamped source. */
  readonly source: number;
  readonly sourceEnd: number;
  readonly traceparent: number;
  readonly traceparentEnd: number;
  readonly key: number;
  readonly keyEnd: number;
  readonly payload: number;
  readonly payloadEnd: number;
  readonly metadata: number;
  readonly metadataEnd: number;
  /** Bytes of both bodies. */
  readonly bodyBytes: number;
  /** They are to be asked for apart, being larger than `smallBodyBytes`. */
  readonly isWithoutBodies: boolean;
  /** The event for keeping. */
  toStored(): StoredEvent;
}

/** The bodies of an event, read apart. */
export type EventBodies = Pick<StoredEvent, "offset" | "payload" | "metadata">;

/** A position in the feed of a partition: the order of commits there. */
export interface FeedPosition {
  /** Transaction id: 64 bits, as text. */
  readonly xid: string;
  readonly contextId: number;
  readonly commitNo: number;
}

/** One commit in the feed. */
export interface FeedCommit {
  readonly position: FeedPosition;
  /** `null` when the context was removed since. */
  readonly address: ContextAddress | null;
  readonly firstOffset: number;
  /** Below `firstOffset` when the commit holds no event. */
  readonly lastOffset: number;
  readonly lastControl: number;
  readonly traceparent: string | null;
  readonly atUs: number;
}

/** The store of one shard, asked on whichever connection is free. */
export interface LogStore extends LogQueries {
  /** Its due rows. */
  readonly schedules: ScheduleStore;
  /** A lane of its own: close it. */
  openLane(): LogLane;
  /**
   * The first `limit` events of a context after `after`, in order. This and the next four fail with CodedError
   * OFFSET_TRUNCATED{firstOffset} when events after `after` are gone, at the moment of the call: never a part of them is answered.
   */
  eventsAfter(contextId: number, after: number, limit: number): Promise<StoredEvent[]>;
  /**
   * The same events, each handed to `take` as it comes: for long reads, since it costs more to begin and much less for each event. What
   * `take` throws is thrown; nothing is handed over after that.
   */
  copyEventsAfter(contextId: number, after: number, limit: number, take: (event: EventBytes) => void): Promise<void>;
  /** The first `limit` events of the types in the range, found by looking at each event. For short ranges. */
  eventsOfTypesInRange(range: OffsetRange, types: readonly number[], limit: number): Promise<StoredEvent[]>;
  /** The same, looking only into the blocks that hold such a type: right where every block of the range is entered. */
  eventsOfTypesInBlocks(range: OffsetRange, types: readonly number[], limit: number): Promise<StoredEvent[]>;
  /** Bodies of those events of a context that exist, in any order. */
  bodiesOf(contextId: number, offsets: readonly number[]): Promise<EventBodies[]>;
  /** Names of those of `types` that have one. */
  typeNames(types: readonly number[]): Promise<ReadonlyMap<number, string>>;
  /** The block below which all blocks of the context are entered. */
  typeBlockMark(contextId: number): Promise<number>;
  /** Enters the blocks from `from` to below `to`, which must be complete, and moves the mark. May be repeated and raced. */
  enterTypeBlocks(contextId: number, from: number, to: number): Promise<void>;
  /**
   * The first `limit` commits of a partition after a position: only those of transactions older than every one still running, so that
   * whatever commits later comes after everything answered here.
   */
  commitsAfter(partition: number, position: FeedPosition, limit: number): Promise<FeedCommit[]>;
  /** Whether a commit of the partition after the position is there, be it one that the feed must not answer yet. */
  hasCommitsAfter(partition: number, position: FeedPosition): Promise<boolean>;
  /** Resolves when the store answers. */
  ping(): Promise<void>;
}
