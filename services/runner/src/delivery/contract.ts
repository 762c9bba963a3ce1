/** What the parts of delivery share: where a subscription stands, as its row says, and what is owed to logs because of it. */

/** A context of a project. */
export interface ContextKey {
  readonly owner: string;
  readonly path: string;
}

/**
 * `active`: everything committed is delivered or being delivered. `retrying`: the last attempt failed or something it needs is away;
 * another is due. `halted`: waits for a resume. `dangling`: nothing answers to the target; looked for again when due. `removed`: the
 * subscription is gone, its state is kept for one of the same name.
 */
export type DeliveryStatus = "active" | "retrying" | "halted" | "dangling" | "removed";

/** What failures have cost a subscription so far. */
export interface Charge {
  /** Failures since the last success. */
  readonly attempt: number;
  /** Of those, the ones charged to one event alone. */
  readonly charged: number;
  /** Most events of the next batch while the offender is searched. */
  readonly width: number | null;
  /** The offender is at or below this offset. */
  readonly narrowThrough: number | null;
  readonly suspect: boolean;
}

/** One row of the delivery table. Every write names the version it has seen and the epoch it is made under. */
export interface DeliveryRow extends ContextKey {
  readonly id: number;
  readonly name: string;
  readonly configuredAt: number;
  /** What keeps the state: `native:<processor>`, `facet:<name>`, or `none` for a target of no known form. */
  readonly host: string;
  /** Everything at or below it is delivered. */
  readonly cursor: number;
  /** True when the last batch reached the head and said so to its processor. */
  readonly caughtUp: boolean;
  readonly status: DeliveryStatus;
  readonly resumedAt: number;
  readonly charge: Charge;
  /** Milliseconds until the next attempt when the row was read, negative when overdue; null when none is due. */
  readonly dueInMs: number | null;
  /** The watermark has passed undelivered commits up to here; null when it has not. */
  readonly behindThrough: number | null;
  /** Its cursor is reported to the log, which waits for it before it gives events up. */
  readonly reportsFloor: boolean;
  readonly epoch: bigint;
  readonly version: bigint;
}

/** State of the processor a subscription feeds: folded through the row's cursor. */
export interface StoredCheckpoint {
  /** Version of the contract that made it. */
  readonly version: string;
  /** JSON. */
  readonly state: string;
}

/** An event owed to the log of the row's context. */
export interface OwedEvent {
  /** UUID; it makes the idempotency key. */
  readonly id: string;
  /** `emit`: a processor wrote it. `fact` and `halt` are records of the platform; a halt's is void once the row goes on. */
  readonly kind: "emit" | "fact" | "halt";
  /** Encoded `iterate.type.v1.EventInput`. */
  readonly event: Uint8Array;
  /** What wrote it: `config@<digest>` or `builtin:<name>`. */
  readonly code: string;
  readonly cause: { readonly chain: string; readonly depth: number };
  readonly principal: string | null;
  readonly traceparent: string;
}

/** The row was changed by someone else: read it again. */
export class RowChanged extends Error {
  override readonly name = "RowChanged";
}
