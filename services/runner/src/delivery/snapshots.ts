/**
 * Reads of processors: their committed state, and waiting until they have come somewhere. Any pod answers, whoever owns the
 * partition: rows say how far delivery was stored, and the log says whether anything was left to deliver in between.
 */
import type { Queryable } from "@iterate-platform/service/postgres";
import { codedError } from "iterate/lib";
import type { ContextLog } from "../log/contract.js";
import type { ContextKey } from "./contract.js";
import type { Progress } from "./progress.js";
import { takenTypes } from "./reconcile.js";
import { snapshotOf, type ProcessorRow } from "./snapshots.sql.js";

export interface Snapshot {
  readonly offset: number;
  /** Null before the first checkpoint. */
  readonly state: unknown;
}

const defaultTimeoutMs = 10_000;
/** Looks at a subscription another pod may own: first soon, then seldom. */
const firstLookMs = 20;
const slowestLookMs = 250;

export class Snapshots {
  readonly #db: Queryable;
  readonly #log: ContextLog;
  readonly #progress: Progress;

  constructor(db: Queryable, log: ContextLog, progress: Progress) {
    this.#db = db;
    this.#log = log;
    this.#progress = progress;
  }

  /** @throws NO_FACET when the context has no processor of this name. */
  async snapshot(context: ContextKey, name: string): Promise<Snapshot> {
    const { cursor, state } = await this.row(context, name);
    return { offset: Number(cursor), state: state === null ? null : (JSON.parse(state) as unknown) };
  }

  /** Where the processor stands, its state as text. One that was configured a moment ago stands at the beginning. @throws NO_FACET. */
  async row(context: ContextKey, name: string): Promise<ProcessorRow> {
    const { rows } = await this.#db.query<ProcessorRow>(snapshotOf(context, name));
    if (rows[0] !== undefined) return rows[0];
    const { subscriptions } = await this.#log.describe(context);
    if (subscriptions.some((subscription) => subscription.name === name)) return { cursor: "0", version: null, state: null };
    throw codedError("NO_FACET", `${context.path} hosts no processor ${JSON.stringify(name)}`, { name });
  }

  /**
   * Resolves with the place reached once every event through `offset` is delivered.
   * @throws WAIT_TIMEOUT, NO_FACET, CANCELLED.
   */
  async waitUntilProcessed(
    context: ContextKey,
    name: string,
    offset: number,
    timeoutMs: number | undefined,
    signal: AbortSignal,
  ): Promise<number> {
    const deadline = performance.now() + (timeoutMs ?? defaultTimeoutMs);
    for (let lookMs = firstLookMs; ; lookMs = Math.min(slowestLookMs, lookMs * 2)) {
      const reached = await this.#reached(context, name, offset, signal);
      if (reached >= offset) return reached;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0)
        throw codedError("WAIT_TIMEOUT", `${name} has processed through offset ${reached}, not ${offset}`, { offset: reached });
      await this.#progress.next(context, name, Math.min(leftMs, lookMs), signal);
      if (signal.aborted) throw codedError("CANCELLED", "the wait was given up by its caller");
    }
  }

  /** The stored cursor, moved over what nobody has to be given. */
  async #reached(context: ContextKey, name: string, offset: number, signal: AbortSignal): Promise<number> {
    const cursor = Number((await this.row(context, name)).cursor);
    if (cursor >= offset) return cursor;
    const { subscriptions, headOffset } = await this.#log.describe(context, { signal });
    const subscription = subscriptions.find((found) => found.name === name);
    const types = subscription === undefined ? [] : takenTypes(subscription);
    // Without a filter every event is owed; beyond the head nothing is known yet.
    if (types.length === 0 || headOffset < offset) return cursor;
    const { events, scannedThrough } = await this.#log.read(context, { after: cursor, limit: 1, types }, { signal });
    const next = events[0] === undefined ? scannedThrough : Number(events[0].offset) - 1;
    return Math.max(cursor, next);
  }
}
