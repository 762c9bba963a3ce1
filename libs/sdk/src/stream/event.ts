/** Events as code and clients see them: what a writer sends, what the log answers, and who the platform says wrote it. */

/** What a writer sends. The platform adds offset, time, path and source; a writer's own values of those are dropped. */
export interface EventInput<Type extends string = string, Payload = unknown> {
  /** At most 256 bytes. `events.iterate.com/<namespace>/<event>` belongs to the platform's catalog; other names are yours. */
  readonly type: Type;
  /** Any JSON value. Keep no key whose value is `undefined`: the log compares and stores JSON. */
  readonly payload?: Payload;
  /** Any JSON value; it is compared with the payload when an idempotency key repeats. */
  readonly metadata?: unknown;
  /** At most 512 bytes. The same key with the same body answers the stored event; another body is IDEMPOTENCY_CONFLICT. */
  readonly idempotencyKey?: string;
  /** A precondition: the event lands exactly at this offset, or the batch is refused with OFFSET_CONFLICT. */
  readonly offset?: number;
  /**
   * True for an event that takes an offset and reaches whoever follows the log now, but is never stored: it may be lost, and once it
   * was answered nobody can ask for it again. It has no idempotency key and no type that the platform folds.
   */
  readonly ephemeral?: boolean;
  /** Written by the engine for the processor it runs; everything else in a writer's `source` is dropped. */
  readonly source?: { readonly processor?: ProcessorSource };
}

/** One committed event. */
export interface StreamEvent<Type extends string = string, Payload = unknown> {
  /** 1-based place in its context's log: unique, never reused, increasing, not always consecutive. */
  readonly offset: number;
  readonly type: Type;
  readonly payload?: Payload;
  readonly metadata?: unknown;
  /** ISO 8601 time of the commit, by the database clock. */
  readonly createdAt: string;
  /** The context whose log holds the event. */
  readonly path: string;
  readonly source: EventSource;
  readonly idempotencyKey?: string;
  /** True for an event that was delivered live and is not stored; processors see it and never fold it. */
  readonly ephemeral?: true;
}

/** Who wrote an event, stamped by the platform. */
export interface EventSource {
  /** The context whose code or session wrote it; never the writer's claim. */
  readonly origin: string;
  readonly cause: EventCause;
  /** The person or token on whose behalf it was written. Attribution only. */
  readonly principal?: string;
  /** The processor that wrote it and what it was handling. */
  readonly processor?: ProcessorSource;
  /** True for the platform's own records. */
  readonly platform?: boolean;
  /** The schedule that appended it. */
  readonly schedule?: ScheduleSource;
}

/** One occurrence of a schedule. */
export interface ScheduleSource {
  readonly key: string;
  /** Offset of the `schedule-set` that is its definition. */
  readonly scheduledAtOffset: number;
  /** ISO 8601 time at which it was due. */
  readonly at: string;
  /** Who set it. */
  readonly definedBy: { readonly origin: string; readonly principal?: string; readonly platform?: boolean };
}

/** The chain of reactions an event belongs to. Code may not act beyond the published depth: LOOP_LIMIT. */
export interface EventCause {
  readonly chain: string;
  readonly depth: number;
}

export interface ProcessorSource {
  readonly slug: string;
  readonly version: string;
  /** Absent when the processor wrote at the head of the log without an event in hand. */
  readonly whileProcessing?: { readonly offset: number; readonly type: string };
}
