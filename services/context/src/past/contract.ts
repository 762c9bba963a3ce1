/** What contexts were, and where states that were folded once are kept. */
import type { CoreState } from "../core/contract.js";
import type { ContextHead } from "../log/contract.js";

/** What contexts were. */
export interface Past {
  /** The core state after the event at `offset`, at most the head. @throws CodedError as `PastCores.at`. */
  coreAt(head: ContextHead, offset: number, signal: AbortSignal): Promise<CoreState>;
}

/** A whole core state. */
export interface CoreSnapshot {
  /** Offset folded through. */
  readonly asOf: number;
  /** JSON of the state, as rows of its concerns. */
  readonly state: string;
}

/** Snapshots of one database, apart for each version of the reducers. Losing any of them costs time alone. */
export interface SnapshotStore {
  /** The newest at or below an offset. @throws CodedError UNAVAILABLE (retryable). */
  newestSnapshot(contextId: number, reducerVersion: number, through: number): Promise<CoreSnapshot | null>;
  /** Keeps a snapshot; one of the same offset is there already, and equal. @throws CodedError UNAVAILABLE (retryable). */
  keepSnapshot(contextId: number, reducerVersion: number, snapshot: CoreSnapshot): Promise<void>;
}
