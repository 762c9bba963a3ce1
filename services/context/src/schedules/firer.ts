/**
 * Fires what is due, in any process, by the clock of the database.
 *
 * A round claims a page of due rows in one short statement that is over before anything is appended. What a row says is then held
 * against the core state of its context: a row that is wrong is put right; an occurrence that is due is appended as one batch by the
 * ordinary path, where the commit decides, by its fence, whether the definition and the occurrence are still the ones in force. A
 * process that ends in between leaves a claim that ends by itself; what had landed by then is not in the core state any more.
 */
import { itx } from "iterate/events";
import { isCodedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import type { ScheduleRow } from "../core/contract.js";
import type { Appender, AppendEvent, ContextHead } from "../log/contract.js";
import { isClosed } from "../log/contract.js";
import { readableCore } from "../log/confirm.js";
import type { StoredSource } from "../log/stored-event.js";
import type { DueClaim, ScheduleStore, StoredDefinition } from "./contract.js";
import { firingWriter, occurrenceLabel, scheduledEvents } from "./definition.js";
import { inForce } from "./due.js";
import { firstDue, nextFiring } from "./when.js";

/** Rows of one round: few enough that appends of others are not kept waiting behind a backlog. */
const pageRows = 32;
/** How long a claim lasts: a process that ends with it delays its firings by so long. */
export const claimMs = 15_000;

export interface FirerParts {
  readonly store: ScheduleStore;
  /** The contexts as of now; one that is gone is not answered. */
  readonly refresh: (contextIds: readonly number[]) => Promise<readonly ContextHead[]>;
  readonly appender: Appender;
  /** Where tests make the process fail. */
  readonly failpoint: (name: string) => void | Promise<void>;
  /** Told of a row that could not be worked on; its claim ends by itself. */
  readonly onFailure: (claim: DueClaim, error: unknown) => void;
}

export interface FirerCounts {
  /** Rows claimed. */
  due: number;
  fired: number;
  failed: number;
  /** Rows that did not say what the core state says, and were put right. */
  repaired: number;
  /** Milliseconds between due times and the looks that found them, of everything fired. */
  lateMs: number;
}

export interface Round {
  /** More may be due. */
  readonly isFull: boolean;
  /** Until something is due, when that is soon. */
  readonly nextInMs: number | null;
}

export class ScheduleFirer {
  readonly counts: FirerCounts = { due: 0, fired: 0, failed: 0, repaired: 0, lateMs: 0 };
  readonly #parts: FirerParts;

  constructor(parts: FirerParts) {
    this.#parts = parts;
  }

  /** One round, looking `aheadMs` ahead. @throws CodedError UNAVAILABLE when the database is away. */
  async round(aheadMs: number): Promise<Round> {
    const { store, failpoint } = this.#parts;
    await failpoint("schedules.before-claim");
    const { claims, nowMs, nextInMs } = await store.claimDue(pageRows, claimMs, aheadMs);
    this.counts.due += claims.length;
    if (claims.length > 0) {
      await failpoint("schedules.after-claim");
      await this.#work(claims, nowMs);
    }
    return { isFull: claims.length === pageRows, nextInMs };
  }

  async #work(claims: readonly DueClaim[], nowMs: number): Promise<void> {
    const { store, refresh, onFailure } = this.#parts;
    const heads = new Map(
      (await refresh([...new Set(claims.map(({ contextId }) => contextId))])).map((head) => [head.contextId, head]),
    );
    const places = claims.flatMap(({ contextId, key }) => {
      const row = rowOf(heads.get(contextId), key);
      if (row === undefined) return [];
      return [...new Set([row.scheduledAtOffset, row.since])].map((offset) => ({ contextId, offset }));
    });
    const found = new Map((await store.definitions(places)).map((event) => [`${event.contextId}@${event.offset}`, event]));
    await Promise.all(
      claims.map(async (claim) => {
        try {
          await this.#settle(claim, heads.get(claim.contextId), (offset) => found.get(`${claim.contextId}@${offset}`), nowMs);
        } catch (error) {
          if (!isOvertaken(error)) onFailure(claim, error);
        }
      }),
    );
  }

  async #settle(
    claim: DueClaim,
    head: ContextHead | undefined,
    eventAt: (offset: number) => StoredDefinition | undefined,
    nowMs: number,
  ): Promise<void> {
    const { store } = this.#parts;
    if (head !== undefined) readableCore(head);
    const row = rowOf(head, claim.key);
    const definition = row === undefined ? undefined : eventAt(row.scheduledAtOffset);
    if (head === undefined || row === undefined || definition === undefined) return this.#repair(claim, null);
    if (head.core.pause !== null) return this.#repair(claim, { kind: "held" });
    const due = row.nextAtMs ?? firstDueOf(row, eventAt(row.since));
    // A pattern that never comes again: the zone's rules have changed since it was set.
    if (due === null) return this.#fail(head, row, definition, null, "it has no occurrence");
    const firing = nextFiring(row.when, due, nowMs);
    if (firing.at > nowMs) return store.settleDue(claim, { kind: "at", atMs: firing.at });
    await this.#fire(head, row, definition, { due, ...firing }, nowMs);
  }

  async #fire(
    head: ContextHead,
    row: ScheduleRow,
    definition: StoredDefinition,
    { due, at, nextAt }: { readonly due: number; readonly at: number; readonly nextAt: number | null },
    nowMs: number,
  ): Promise<void> {
    const { appender, failpoint } = this.#parts;
    const { key, scheduledAtOffset } = row;
    const fact = {
      key,
      scheduledAtOffset,
      at: iso(at),
      ...(due === at ? {} : { since: iso(due) }),
      nextAt: nextAt === null ? null : iso(nextAt),
    };
    try {
      const source = JSON.parse(definition.source) as StoredSource;
      await failpoint("schedules.before-append");
      await appender.append({
        address: head.address,
        appendId: null,
        events: [
          ...scheduledEvents(definition),
          record(itx.scheduleFired.type, fact, `itx/schedule:${key}:${scheduledAtOffset}:${due}`),
        ],
        writer: firingWriter(source, head.address.owner),
        occurrence: occurrenceLabel(definition, key, fact.at),
        traceparent: null,
      });
      await failpoint("schedules.after-append");
    } catch (error) {
      if (!isFinal(error)) throw error;
      return this.#fail(head, row, definition, due, reasonOf(error));
    }
    this.counts.fired += 1;
    this.counts.lateMs += nowMs - at;
  }

  /** The row rests from here on, if this is still its next occurrence. */
  async #fail(
    head: ContextHead,
    { key, scheduledAtOffset }: ScheduleRow,
    { source }: StoredDefinition,
    due: number | null,
    error: string,
  ): Promise<void> {
    const { cause } = JSON.parse(source) as StoredSource;
    const fact = { key, scheduledAtOffset, ...(due === null ? {} : { at: iso(due) }), error: cut(error) };
    await this.#parts.appender.append({
      address: head.address,
      appendId: null,
      events: [record(itx.scheduleFailed.type, fact, null)],
      writer: platformWriter(cause),
      traceparent: null,
    });
    this.counts.failed += 1;
  }

  async #repair(claim: DueClaim, due: { readonly kind: "held" } | null): Promise<void> {
    await this.#parts.store.settleDue(claim, due);
    this.counts.repaired += 1;
  }
}

function rowOf(head: ContextHead | undefined, key: string): ScheduleRow | undefined {
  return head === undefined || isClosed(head) ? undefined : inForce(head.core, key);
}

function firstDueOf({ when }: ScheduleRow, set: StoredDefinition | undefined): number | null {
  return set === undefined ? null : firstDue(when, Math.ceil(set.createdAtUs / 1_000));
}

/** Whether the same firing would be refused again. A pause that came meanwhile holds the row, and is over one day. */
function isFinal(error: unknown): boolean {
  return !isCodedError(error) || (!error.retryable && error.code !== "STREAM_PAUSED");
}

/** What the fact says: of a fault of the platform no more than that. */
function reasonOf(error: unknown): string {
  return isCodedError(error) && error.kind !== "failed" ? error.message : "the platform could not append the events; report it";
}

/** The schedule was replaced, cancelled, fired or held meanwhile, by a commit that says so in its due row too. */
function isOvertaken(error: unknown): boolean {
  return isCodedError(error) && (error.code === "STREAM_PAUSED" || error.code === "OFFSET_CONFLICT");
}

function record(type: string, payload: unknown, idempotencyKey: string | null): AppendEvent {
  return {
    type,
    payload: Buffer.from(JSON.stringify(payload)),
    metadata: null,
    idempotencyKey,
    expectedOffset: null,
    formatVersion: 0,
    processor: null,
    isEphemeral: false,
  };
}

function platformWriter(cause: Writer["cause"]): Writer {
  return { kind: "service", origin: null, cause, principal: null, isPlatform: true, owner: null, lease: null };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

function cut(message: string): string {
  return message.toWellFormed().replaceAll("\0", "").slice(0, itx.scheduleLimits.errorLength);
}
