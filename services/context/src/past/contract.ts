/** Where states that were folded once are kept. */

/** A whole core state. */
export interface CoreSnapshot {
  /** Offset folded through. */
  readonly asOf: number;
  /** JSON of the state. */
  readonly state: string;
}

/** Snapshots of one database, apart for each version of the reducers. Losing any of them costs time alone. */
export interface SnapshotStore {
  /** The newest at or below an offset. @throws CodedError UNAVAILABLE (retryable). */
  newestSnapshot(contextId: number, reducerVersion: number, through: number): Promise<CoreSnapshot | null>;
  /** Keeps a snapshot; one of the same offset is there already, and equal. @throws CodedError UNAVAILABLE (retryable). */
  keepSnapshot(contextId: number, reducerVersion: number, snapshot: CoreSnapshot): Promise<void>;
}
