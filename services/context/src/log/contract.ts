/**
 * What the parts of the log share: how a context is held in memory, what an append asks and answers, and what is told after a
 * commit. Offsets and commit numbers are JavaScript numbers: the API refuses what does not fit in 53 bits.
 */
import type { CodedError } from "iterate/lib";
import type { CoreState } from "../core/contract.js";
import type { Writer } from "../caller/contract.js";

export interface ContextAddress {
  /** Project id or `global`. */
  readonly owner: string;
  /** Absolute path. */
  readonly path: string;
}

/** A born context as of one commit. Immutable: the cache replaces it when a later commit becomes known. */
export interface ContextHead {
  readonly address: ContextAddress;
  /** `partition << 40 | number`; below 2^48. */
  readonly contextId: number;
  readonly partition: number;
  /** Time the context's row was made, microseconds since 1970. */
  readonly createdAtUs: number;
  /** Number of the last commit, dense from 1; 0 while no commit exists. */
  readonly commitNo: number;
  /** Offset of the last event; 0 while there is none. */
  readonly lastOffset: number;
  /** The next event lands above this offset. */
  readonly reservedThrough: number;
  /** Number of the newest commit with a control event. */
  readonly lastControl: number;
  /** Highest epoch of the partition's owner that committed here. */
  readonly runnerEpoch: number;
  /** Generation of the shard at the last commit. */
  readonly generation: number;
  /** Folded through `lastControl`. */
  readonly core: CoreState;
  /** Set when `core` is not what the log says, because this release cannot read one of its control events. */
  readonly unreadable?: CodedError;
}

/**
 * The contexts this process holds, of one shard. Only ever moves a context forward, so loads may race commits. What it answers
 * may be behind other processes: confirm it (`refresh`) before answering a caller from it.
 */
export interface ContextCache {
  /** What is held now, without asking the database. */
  peek(address: ContextAddress): ContextHead | undefined;
  peekById(contextId: number): ContextHead | undefined;
  /** What is held, else what the database has; `undefined` in the place of a context that was never born. One statement for all. */
  load(addresses: readonly ContextAddress[]): Promise<(ContextHead | undefined)[]>;
  /**
   * Reads the last commit row of each context in one statement (one more when control events are to be folded) and answers the
   * heads as of now. A context of which nothing is held is loaded.
   */
  refresh(contextIds: readonly number[]): Promise<ContextHead[]>;
  /** Lets a context go, because its name may stand for another one. */
  forget(address: ContextAddress): void;
}

/** Generation of the commit that closes a context for ever: it was replaced, and nothing follows it. */
export const closedGeneration = 0;

/** Whether a context was replaced: it has a last commit that nothing follows. */
export function isClosed({ commitNo, generation }: Pick<ContextHead, "commitNo" | "generation">): boolean {
  return commitNo > 0 && generation === closedGeneration;
}

/** Owners of contexts that are being imported, or were replaced: no call has such a name, and nobody is told of them. */
export const hiddenOwner = /^(?:imp|rem)_/;

/** First offset of a closed context: no reader reaches it. */
export const closedFirstOffset = Number.MAX_SAFE_INTEGER;

/** An event complete and storable: every limit checked, the source stamped, the JSON validated. */
export interface StorableEvent {
  readonly type: string;
  /** JSON text as sent; `null` when there is none. */
  readonly payload: Buffer | null;
  readonly metadata: Buffer | null;
  readonly idempotencyKey: string | null;
  /** SHA-256 of the canonical body; set exactly when the key is. */
  readonly bodyDigest: Buffer | null;
  readonly expectedOffset: number | null;
  /** JSON of the stamped source, as stored. */
  readonly source: string;
  readonly traceparent: string | null;
  readonly formatVersion: number;
  /** The parsed payload of a control event, else `undefined`. */
  readonly control: { readonly payload: unknown } | undefined;
  /** Takes an offset and is told, but never stored. It has neither key nor control payload. */
  readonly isEphemeral: boolean;
  /** Bytes counted against group and batch limits. */
  readonly bytes: number;
}

/** A context whose newest control commit must still be this one when a commit that rests on it lands. */
export interface PolicyGuard {
  readonly contextId: number;
  readonly lastControl: number;
}

/** Provenance of what a schedule appended, as it is stored in the source of each event. */
export interface OccurrenceLabel {
  readonly key: string;
  /** Offset of the event that set the schedule. */
  readonly scheduledAtOffset: number;
  /** ISO time at which it was due. */
  readonly at: string;
  /** The source of that event, in short. */
  readonly definedBy: { readonly origin: string; readonly principal?: string; readonly platform?: true };
}

/** One append as the API hands it over: not yet checked. */
export interface AppendCommand {
  readonly address: ContextAddress;
  /** UUID kept over retries; `null` lets the engine make one. */
  readonly appendId: string | null;
  readonly events: readonly AppendEvent[];
  readonly writer: Writer;
  readonly traceparent: string | null;
  /** Set for the firing of a schedule: the last event is the platform's record of it, the others are as `writer` would append them. */
  readonly occurrence?: OccurrenceLabel;
}

export interface AppendEvent {
  readonly type: string;
  readonly payload: Buffer | null;
  readonly metadata: Buffer | null;
  readonly idempotencyKey: string | null;
  readonly expectedOffset: number | null;
  /** Format of the payload; 0 stands for the one this deployment writes. */
  readonly formatVersion: number;
  readonly processor: ProcessorLabel | null;
  readonly isEphemeral: boolean;
}

/** The one part of a source a writer may give. */
export interface ProcessorLabel {
  readonly slug: string;
  readonly version: string;
  readonly whileProcessing: { readonly offset: number; readonly type: string } | null;
}

export interface AppendReceipt {
  readonly offset: number;
  readonly createdAtUs: number;
  /** True when the event was there already under the same key. */
  readonly existing: boolean;
  /** JSON of the stamped source; of an ephemeral event alone, which cannot be read back. */
  readonly source?: string;
}

/** Appends to the contexts of every shard. */
export interface Appender {
  /**
   * Commits all events of the append or none. Answers after the commit; an append of ephemeral events alone, after they were told.
   *
   * @throws CodedError: refusals and conflicts are final; UNAVAILABLE, OVERLOADED and DEADLINE_EXCEEDED are safe to retry with
   *   the same `appendId`.
   */
  append(command: AppendCommand): Promise<readonly AppendReceipt[]>;
}

export interface PlacedEvent {
  readonly event: StorableEvent;
  readonly offset: number;
}

/** One commit of one context, after it is durable. */
export interface CommittedContext {
  readonly head: ContextHead;
  readonly commitNo: number;
  readonly firstOffset: number;
  /** Below `firstOffset` when the commit holds no event. */
  readonly lastOffset: number;
  /** The stored events, in offset order. */
  readonly rows: readonly PlacedEvent[];
  readonly traceparent: string | null;
}

/** What one database statement committed. */
export interface CommittedBatch {
  /** Commit time by the database clock, microseconds since 1970: `created_at` of every event. */
  readonly atUs: number;
  readonly commits: readonly CommittedContext[];
}

/** Told of every commit of this process, in commit order for each context, before the append is answered. Must not throw or block. */
export type CommitObserver = (batch: CommittedBatch) => void;

export interface PlacedEphemeral extends PlacedEvent {
  /** Offset of the stored event it comes after; 0 when there is none. No other stored event will ever lie between the two. */
  readonly after: number;
}

/** Ephemeral events of one context that just got their offsets. */
export interface EphemeralBatch {
  /** As of the commit they follow, or are part of. */
  readonly head: ContextHead;
  /** Time of the commit they are part of, else by the clock of this process; microseconds since 1970. */
  readonly atUs: number;
  /** In offset order. */
  readonly events: readonly PlacedEphemeral[];
}

/**
 * Told of ephemeral events before their append is answered; of those that are part of a commit just before its observer is. In offset
 * order for each context. Must not throw or block.
 */
export type EphemeralObserver = (batch: EphemeralBatch) => void;
