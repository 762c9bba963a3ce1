/**
 * What clients saw, in plain values: the checker compares it with what the log holds afterwards. A context is named `owner path`.
 */

/** An event as a client sent it. Bodies are JSON texts, which must come back byte for byte. */
export interface SentEvent {
  readonly type: string;
  readonly payload: string;
  readonly metadata: string;
  /** Empty for none. */
  readonly key: string;
}

export interface SeenEvent extends SentEvent {
  readonly offset: number;
}

export interface Receipt {
  readonly offset: number;
  readonly existing: boolean;
}

/** One append, over all its repeats. */
export interface AppendRecord {
  readonly context: string;
  readonly appendId: string;
  readonly events: readonly SentEvent[];
  readonly expectedOffset: number | null;
  /** Every acknowledgement it got: one for each sending that was answered. */
  readonly answers: (readonly Receipt[])[];
  /** The code it was refused for, `null` while it was not. */
  refusal: string | null;
}

/** One page of a read. */
export interface ReadRecord {
  readonly context: string;
  readonly after: number;
  readonly through: number;
  readonly isAtHead: boolean;
  /** Highest offset acknowledged to anyone before the call. */
  readonly mustSee: number;
  readonly events: readonly SeenEvent[];
}

/** One subscriber over all its connections: it resumes where it was. */
export interface StreamRecord {
  readonly context: string;
  readonly after: number;
  through: number;
  readonly events: SeenEvent[];
}

/** One wait that was answered: the first event of `type` after `after`. */
export interface WaitRecord {
  readonly context: string;
  readonly type: string;
  readonly after: number;
  readonly event: SeenEvent;
}

export interface CommitSeen {
  readonly context: string;
  readonly commitNo: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
}

/** One follower of a partition's feed. */
export interface FeedRecord {
  readonly partition: number;
  readonly commits: CommitSeen[];
}

/** A call that ended in an error nobody may see, whatever is broken. */
export interface UnexpectedError {
  readonly call: string;
  readonly code: string;
  readonly message: string;
}

export class History {
  readonly appends: AppendRecord[] = [];
  readonly reads: ReadRecord[] = [];
  readonly streams: StreamRecord[] = [];
  readonly waits: WaitRecord[] = [];
  readonly feeds: FeedRecord[] = [];
  readonly unexpected: UnexpectedError[] = [];
  /** Retryable errors by code: how much of the fault the clients felt. */
  readonly retried = new Map<string, number>();
}

/** What there is afterwards. */
export interface Truth {
  /** The whole log of every context, as each process answers it. */
  readonly logs: readonly ReadonlyMap<string, readonly SeenEvent[]>[];
  /** Rows of the commit table, in order of their numbers. */
  readonly commits: ReadonlyMap<string, readonly CommitSeen[]>;
  /** What each process says a context is now. */
  readonly descriptions: readonly Description[];
  /** Names and places of subscriptions as stored for the next process that loads the context. */
  readonly storedSubscriptions: ReadonlyMap<string, Readonly<Record<string, number>>>;
  /** Everything that was written where operators look, and what must be in none of it. */
  readonly writings: readonly { readonly where: string; readonly text: string }[];
  readonly secrets: readonly { readonly what: string; readonly text: string }[];
  /** The runner's books, when a runner took part. */
  readonly runner: RunnerBooks | null;
}

export interface Description {
  readonly context: string;
  readonly headOffset: number;
  readonly commitNo: number;
  /** Offset that configured each subscription, by name. */
  readonly subscriptions: Readonly<Record<string, number>>;
}

export interface RunnerBooks {
  readonly deliveries: readonly DeliveryRow[];
  /** Events a processor emitted, by the offset they answer. */
  readonly emitted: ReadonlyMap<string, readonly number[]>;
  /** Offsets of the events each context's processor was to answer. */
  readonly consumed: ReadonlyMap<string, readonly number[]>;
  readonly leases: readonly LeaseRow[];
  /** Runners alive at the time of the books. */
  readonly alive: readonly string[];
}

export interface DeliveryRow {
  readonly context: string;
  readonly status: string;
  readonly cursor: number;
  readonly dueInMs: number | null;
  /** Events handed over but not yet appended. */
  readonly owed: number;
}

export interface LeaseRow {
  readonly partition: number;
  readonly pod: string | null;
  /** Below 0 when it has expired. */
  readonly leftMs: number;
}
