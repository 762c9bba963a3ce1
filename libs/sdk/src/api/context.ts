/** What every handle on a context offers and answers, whether project code or a session holds it. */
import type { EventInput, StreamEvent } from "../stream/event.js";

/** Where a handle points. */
export interface ContextIdentity {
  readonly projectId: string;
  readonly projectSlug: string;
  /** Absolute path of the context. */
  readonly path: string;
}

export interface ReadEventsArgs {
  /** Events with a greater offset are read; 0, the default, starts at the first kept event. */
  readonly afterOffset?: number;
  /** Largest number of events in the page, 1–1,000, default 500; a page also ends at 8 MiB of bodies and holds at least one event. */
  readonly limit?: number;
  /** Only events of these types; at most 100. */
  readonly types?: readonly string[];
  /**
   * Also the recent ephemeral events that the answering process kept, at most 1 MiB of them; they do not count against `limit`, and a
   * page at the head has those after its last stored event again.
   */
  readonly includeEphemeral?: boolean;
}

export interface EventsPage {
  readonly events: readonly StreamEvent[];
  /** Every stored event up to here is in the page or does not match: pass it as the next `afterOffset`. */
  readonly scannedThroughOffset: number;
  /** True when the scan reached the end of the log. */
  readonly atHead: boolean;
  /** Set when ephemeral events were asked for. False: another process keeps the newest ones, and the page holds stored events alone. */
  readonly ephemeralsIncluded?: boolean;
}

export interface WaitForEventArgs {
  /** Exactly one of `type` and `types`. */
  readonly type?: string;
  readonly types?: readonly string[];
  /** Fields the payload must hold, each compared by strict equality. */
  readonly payload?: Readonly<Record<string, string | number | boolean | null>>;
  /** Default: the head now, so only a later event matches. When given, the first match after it, stored or still to come. */
  readonly afterOffset?: number;
  /** Default 30,000, at most 120,000; then WAIT_TIMEOUT. */
  readonly timeoutMs?: number;
}

/** The calls every context handle has. */
export interface ContextCalls {
  whoami(): Promise<ContextIdentity>;
  /**
   * Commits all events or none, at contiguous offsets, and answers them as stored, in order. No events: no commit, `[]`. Of an
   * ephemeral event the answer says that it was taken and handed on, not that anybody got it.
   * Throws BATCH_TOO_LARGE, EVENT_TOO_LARGE, IDEMPOTENCY_CONFLICT, OFFSET_CONFLICT, STREAM_PAUSED, LOOP_LIMIT. After
   * UNAVAILABLE or DEADLINE_EXCEEDED repeat only events that carry an idempotency key: the first call may have landed.
   */
  append(...events: EventInput[]): Promise<StreamEvent[]>;
  /** One page of the log, in offset order. May be retried. Throws OFFSET_TRUNCATED below what the context keeps. */
  readEvents(args?: ReadEventsArgs): Promise<EventsPage>;
  /** The first matching event; an ephemeral one matches when it comes during the wait. May be retried with an explicit `afterOffset`. Throws WAIT_TIMEOUT. */
  waitForEvent(args: WaitForEventArgs): Promise<StreamEvent>;
}
