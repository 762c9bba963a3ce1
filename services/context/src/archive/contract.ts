/** Archives of contexts: what is written into one, and what importing one needs of the databases of the log. */

/** An event as it is stored, bodies as the text their writer sent. */
export interface ArchivedEvent {
  readonly offset: number;
  readonly type: string;
  readonly formatVersion: number;
  /** Microseconds since 1970. */
  readonly createdAtUs: number;
  /** Set on the first event of an append. */
  readonly appendId: string | null;
  readonly idempotencyKey: string | null;
  /** JSON of the stamped source. */
  readonly source: string;
  readonly traceparent: string | null;
  /** JSON text. */
  readonly payload: string | null;
  readonly metadata: string | null;
}

/** One context of an archive. */
export interface ArchivedContext {
  readonly path: string;
  /** Offset of the first event that can be read; events below it are control events. */
  readonly firstOffset: number;
  /** Every event through here is in the archive. */
  readonly through: number;
  /** The next event lands above it. */
  readonly reservedThrough: number;
}

export interface StagedCommit {
  readonly contextId: number;
  readonly partition: number;
  readonly commitNo: number;
  readonly firstOffset: number;
  /** Below `firstOffset` when the commit holds no event. */
  readonly lastOffset: number;
  readonly reservedThrough: number;
  readonly lastControl: number;
  readonly events: readonly StagedEvent[];
}

export interface StagedEvent extends Omit<ArchivedEvent, "createdAtUs"> {
  /** `null` is now. */
  readonly createdAtUs: number | null;
  readonly isControl: boolean;
  /** Set exactly when the key is. */
  readonly bodyDigest: Buffer | null;
}

/** The database of one shard as exports and imports see it. */
export interface ArchiveStore {
  /** Paths of the owner's contexts after `after`, in their order. */
  pathsOf(owner: string, after: string, limit: number): Promise<string[]>;
  /** Offset of the first event of a context that can be read. */
  firstOffsetOf(contextId: number): Promise<number>;
  /** The next events of a context after `after` and through `through`: as many as `maxEvents` and `maxBytes` allow, at least one. */
  eventsOf(range: {
    readonly contextId: number;
    readonly after: number;
    readonly through: number;
    readonly firstOffset: number;
    readonly maxEvents: number;
    readonly maxBytes: number;
  }): Promise<ArchivedEvent[]>;
  /** Begins an import: no context of `owner` is born until it is opened or removed. False when another import holds the name. */
  beginImport(id: string, owner: string): Promise<boolean>;
  /** Whether a context of that owner exists. */
  hasContexts(owner: string): Promise<boolean>;
  /** Makes a context under a name of the import's own; answers its id. */
  stageContext(id: string, path: string, partition: number): Promise<number>;
  /**
   * Writes a commit of a staged context.
   *
   * @throws CodedError CANCELLED when the import was removed meanwhile; AlreadyStored when two events share a key or an append id.
   */
  stageCommit(id: string, generation: number, commit: StagedCommit): Promise<void>;
  /** What a staged context keeps: its first offset, and that its retention is looked at. */
  stageRetention(contextId: number, firstOffset: number): Promise<void>;
  /** The schedules of a staged context, which are looked at once it is open. */
  stageDue(contextId: number, schedules: readonly { readonly key: string; readonly scheduledAtOffset: number }[]): Promise<void>;
  /**
   * One step of giving the staged contexts their name: first those that stand there are closed. True when it may not be all. May be
   * repeated; does nothing for an import that is open already.
   */
  openStep(id: string, owner: string): Promise<boolean>;
  /** One step of removing what an import left, staged or replaced. True when it may not be all. May be repeated. */
  removeStep(id: string): Promise<boolean>;
}
