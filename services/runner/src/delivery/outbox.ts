/**
 * Sends what a subscription owes to its context's log, in order, and forgets each event once it is answered. Neighbours of one cause
 * travel in one append; when that is refused each is tried alone, so that only the guilty one ends. Sending again is safe: every event
 * has one key for ever.
 */
import { EventInput as WireInput } from "@iterate-platform/proto/iterate/type/v1/event";
import { failpoint } from "@iterate-platform/service/failpoints";
import type { Log } from "@iterate-platform/service/log";
import type { Queryable } from "@iterate-platform/service/postgres";
import type { ContextLog } from "../log/contract.js";
import type { DeliveryRow, OwedEvent } from "./contract.js";
import { attemptFailure, isPassing } from "./failure.js";
import { refusalFact } from "./facts.js";
import { buryOwed, owedBy, owedEvent, settleOwed, type OwedColumns } from "./outbox.sql.js";

/** Most events of one append, and most bytes: the log takes 1,000 and 16 MiB. */
const maxEvents = 1_000;
const maxBytes = 8 * 1024 * 1024;
const pageSize = 1_000;

export interface OutboxParts {
  readonly db: Queryable;
  readonly log: ContextLog;
  readonly newId: () => string;
  readonly report: Log;
}

export interface SendScope {
  readonly signal: AbortSignal;
  /** A token for what wrote these events, under the current lease. */
  execution(owed: OwedEvent): Promise<string>;
}

export class Outbox {
  readonly #parts: OutboxParts;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when nothing is owed any more.
   * @throws what passes by itself (UNAVAILABLE, OVERLOADED, STREAM_PAUSED …) with the rest still owed; STALE_EPOCH when another
   *   runner owns the partition.
   */
  async send(row: Pick<DeliveryRow, "id" | "owner" | "path" | "name">, scope: SendScope): Promise<void> {
    for (;;) {
      const { rows } = await this.#parts.db.query<OwedColumns>(owedBy(row.id, pageSize));
      if (rows.length === 0) return;
      for (const group of groups(rows.map(owedEvent))) await this.#sendGroup(row, group, scope);
    }
  }

  async #sendGroup(
    row: Pick<DeliveryRow, "owner" | "path" | "name">,
    group: readonly OwedEvent[],
    scope: SendScope,
  ): Promise<void> {
    try {
      await this.#append(row, group, scope);
    } catch (error) {
      if (isPassing(error) || attemptFailure(error).code === "STALE_EPOCH" || scope.signal.aborted) throw error;
      if (group.length > 1) {
        for (const owed of group) await this.#sendGroup(row, [owed], scope);
        return;
      }
      if (group[0] !== undefined) await this.#end(row, group[0], error);
    }
  }

  async #append(
    { owner, path }: Pick<DeliveryRow, "owner" | "path">,
    group: readonly OwedEvent[],
    scope: SendScope,
  ): Promise<void> {
    const [first] = group;
    if (first === undefined) return;
    scope.signal.throwIfAborted();
    const execution = await scope.execution(first);
    const events = group.map(({ event }) => WireInput.decode(event));
    await this.#parts.log.append({ owner, path }, events, { execution, traceparent: first.traceparent, signal: scope.signal });
    await failpoint("outbox.before-settle");
    await this.#parts.db.query(settleOwed(group.map(({ id }) => id)));
  }

  /** The event was refused for good. Beyond the loop limit it counts as sent: the log has recorded the limit itself. */
  async #end(row: Pick<DeliveryRow, "owner" | "path" | "name">, owed: OwedEvent, error: unknown): Promise<void> {
    const failure = attemptFailure(error);
    const { db, newId, report } = this.#parts;
    if (failure.code === "LOOP_LIMIT" || owed.kind !== "emit") {
      if (owed.kind !== "emit")
        report.error("a record of the platform was refused by its log", {
          owner: row.owner,
          contextPath: row.path,
          subscription: row.name,
          error,
        });
      await db.query(settleOwed([owed.id]));
      return;
    }
    report.warn("an emitted event was refused for good", {
      owner: row.owner,
      contextPath: row.path,
      subscription: row.name,
      code: failure.code,
      reason: failure.message,
    });
    await db.query(buryOwed(owed.id, failure, refusalFact(newId(), row.name, owed, failure)));
  }
}

/** Runs of events that one append can carry: written by the same code for the same cause. */
function groups(owed: readonly OwedEvent[]): OwedEvent[][] {
  const groups: OwedEvent[][] = [];
  let bytes = 0;
  for (const event of owed) {
    const current = groups.at(-1);
    const isJoined =
      current?.[0] !== undefined &&
      isSameCause(current[0], event) &&
      current.length < maxEvents &&
      bytes + event.event.length <= maxBytes;
    if (isJoined) current.push(event);
    else groups.push([event]);
    bytes = isJoined ? bytes + event.event.length : event.event.length;
  }
  return groups;
}

function isSameCause(one: OwedEvent, other: OwedEvent): boolean {
  return (
    one.code === other.code &&
    one.cause.chain === other.cause.chain &&
    one.cause.depth === other.cause.depth &&
    one.principal === other.principal &&
    one.traceparent === other.traceparent
  );
}
