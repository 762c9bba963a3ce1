/** What giving up the past of a log needs of the database, and how far subscriptions have got. */

/** A place that one subscription has passed for good. */
export interface SubscriptionFloor {
  readonly name: string;
  /** Offset of the event that configured the subscription: configured anew, it starts over. */
  readonly configuredAt: number;
  /** Offset of the last resume it has followed; 0 when there is none. */
  readonly resumedAt: number;
  /** Events at or below it are not needed by it any more. */
  readonly floor: number;
}

export interface ReportedFloor extends SubscriptionFloor {
  readonly owner: string;
  readonly path: string;
}

/** Keeps floors. */
export interface FloorStore {
  /** Takes floors in; one that is older than what is held changes nothing, so they may come late, twice or in any order. */
  reportFloors(floors: readonly ReportedFloor[]): Promise<void>;
  floorsOf(contextId: number): Promise<SubscriptionFloor[]>;
  /** Forgets the floors of names that are not among `names`. */
  keepFloors(contextId: number, names: readonly string[]): Promise<void>;
}

/** The database of one shard as the sweeper sees it. Times are the database's. Every call may be repeated, and raced by another pod. */
export interface RetentionStore extends FloorStore {
  /** Makes up to `limit` contexts due whose setting is new, or newer than the one they were made due for. */
  noticeChanges(limit: number): Promise<void>;
  /** Takes up to `limit` contexts that are due, the longest first; nobody else takes them for `claimMs`. */
  claim(limit: number, claimMs: number): Promise<number[]>;
  /** Ends a claim; the context is due again after `dueInMs`. */
  release(contextId: number, dueInMs: number): Promise<void>;
  /** The lowest offset in [`from`, `through`] whose event is younger than `maxAgeMs`; `through + 1` when there is none. */
  firstYoungerThan(contextId: number, from: number, through: number, maxAgeMs: number): Promise<number>;
  /** Milliseconds since the events at `offsets`. One that is gone is not answered. */
  agesOf(contextId: number, offsets: readonly number[]): Promise<ReadonlyMap<number, number>>;
  /** From here on nothing below `firstOffset` is read. It only ever rises. */
  begin(contextId: number, firstOffset: number): Promise<void>;
  /** Removes the bodies of up to `limit` more events below the first offset. False when none is left. */
  empty(contextId: number, limit: number): Promise<boolean>;
  /** Removes up to `limit` keys, and as many commits, that were truncated `keptMs` ago. False when none is left. */
  purge(contextId: number, limit: number, keptMs: number): Promise<boolean>;
}
