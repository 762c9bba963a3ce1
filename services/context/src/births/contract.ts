/** Births of contexts that parents are told of. */
import type { ContextAddress } from "../log/contract.js";

export interface Birth {
  readonly contextId: number;
  readonly address: ContextAddress;
}

/** One shard's record of who was told. Every call may be repeated, and raced by another pod. @throws CodedError UNAVAILABLE (retryable). */
export interface BirthStore {
  /** The first `limit` contexts after an id that were born `minAgeMs` ago, and whose parents were not told. */
  untold(afterContextId: number, minAgeMs: number, limit: number): Promise<Birth[]>;
  told(contextIds: readonly number[]): Promise<void>;
}

export interface Child {
  readonly path: string;
  /** Microseconds since 1970. */
  readonly createdAtUs: number;
}

export interface ChildPage {
  /** By path. */
  readonly children: readonly Child[];
  /** Every child at or below it was looked at; `null` when there is none above. */
  readonly lookedThrough: string | null;
}

/** The contexts of one shard by their paths. */
export interface ChildStore {
  /**
   * Contexts one name below `parent` whose paths come after `after`, which is empty for the first page: at most `limit`. Costs what it
   * answers: whatever lies below a child is stepped over.
   */
  childrenOf(parent: ContextAddress, after: string, limit: number): Promise<ChildPage>;
}
