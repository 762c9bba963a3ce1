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
