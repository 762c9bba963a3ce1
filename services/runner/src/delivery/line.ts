/**
 * The serial line of one subscription: everything that is owed to it happens here, one thing after the other.
 *
 * It rests until poked, then works until nothing is left: what it owes to its log, then batches from the cursor to the head. Between
 * batches it may be `resting` (at the head), `waiting` (for a due time, its pace, or a moved cursor to be stored), `halted` or
 * `removed`. What it knows of its row may be overtaken by a reconfiguration, or by another owner: every write is fenced, and one that
 * finds the row changed makes the line read it again.
 */
import type { Log } from "@iterate-platform/service/log";
import type { Queryable, Statement } from "@iterate-platform/service/postgres";
import { itx } from "iterate/events";
import { codedError, errorCode } from "iterate/lib";
import type { Lease } from "../lease/lease.js";
import type { ContextLog } from "../log/contract.js";
import { afterSetback, type ChargeRules, type Setback, type Verdict } from "./charge.js";
import type { ContextKey, DeliveryRow } from "./contract.js";
import { RowChanged } from "./contract.js";
import { commitSetback, deliveryRow, endWait, moveCursor, rowById, type DeliveryColumns, type Fence } from "./delivery.sql.js";
import { attemptFailure, isPassing } from "./failure.js";
import { failureText, haltFact } from "./facts.js";
import type { FairTurns } from "./fair-turns.js";
import { ladderDelayMs } from "./ladder.js";
import type { Outbox } from "./outbox.js";
import { Pace } from "./pace.js";
import { cutPage, type BatchLimits, type BatchPage } from "./page.js";
import type { Progress } from "./progress.js";
import type { Subscribed } from "./reconcile.js";
import { attributionOf, type Attempt, type Attempts } from "./attempt.js";

export interface LineRules {
  readonly charge: ChargeRules;
  readonly batch: BatchLimits;
  /** Commits a second of one busy subscription, and how many an idle one may make at once. */
  readonly pace: { readonly perSecond: number; readonly burst: number };
  /** A cursor moved over events nobody takes is stored after so many offsets, or so long. */
  readonly store: { readonly offsets: number; readonly ms: number };
}

export interface LineParts {
  readonly db: Queryable;
  readonly log: ContextLog;
  readonly attempts: Attempts;
  readonly outbox: Outbox;
  readonly turns: FairTurns;
  /** Turns of suspects: one of a project at a time. */
  readonly quarantine: FairTurns;
  readonly progress: Progress;
  readonly rules: LineRules;
  readonly report: Log;
  readonly newId: () => string;
  readonly random: () => number;
  readonly monotonicMs: () => number;
}

interface Changed {
  readonly version: string;
  readonly behind_through: string | null;
}

export class SubscriptionLine {
  readonly name: string;
  readonly #parts: LineParts;
  readonly #lease: Lease;
  readonly #context: ContextKey;
  readonly #headOf: () => number;
  readonly #pace: Pace;
  readonly #report: Log;
  #subscription: Subscribed;
  #row: DeliveryRow;
  /** At or above the row's: it moves ahead over events nobody takes. */
  #cursor: number;
  #movedSinceMs: number | null = null;
  #dueAtMs: number | null;
  /** Something may be in the outbox. */
  #mayOwe = true;
  #mustReload = false;
  /** Waits in a row for things that were away. */
  #waits = 0;
  #isWanted = false;
  #isOver = false;
  #pumping: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: LineParts, lease: Lease, row: DeliveryRow, subscription: Subscribed, headOf: () => number) {
    const { owner, path, name } = row;
    this.name = name;
    this.#parts = parts;
    this.#lease = lease;
    this.#context = { owner, path };
    this.#headOf = headOf;
    this.#report = parts.report.child({ owner, context: path, subscription: name });
    this.#pace = new Pace(parts.rules.pace.perSecond, parts.rules.pace.burst, parts.monotonicMs());
    this.#subscription = subscription;
    this.#row = row;
    this.#cursor = row.cursor;
    this.#dueAtMs = this.#dueAt(row);
    lease.signal.addEventListener("abort", this.#end, { once: true });
  }

  /** Takes what the subscription table, and the row, say now; an older row than the known one is not believed. */
  adopt(row: DeliveryRow, subscription: Subscribed): void {
    this.#subscription = subscription;
    if (row.version > this.#row.version) this.#take(row);
  }

  /** Something may be to do. */
  poke(): void {
    if (this.#isOver) return;
    this.#isWanted = true;
    this.#pumping ??= this.#pump().finally(() => {
      this.#pumping = undefined;
      // A poke that came while the pump was ending.
      if (this.#isWanted) this.poke();
    });
  }

  /** Something of the context is due, as the rows say: a wait that is known here may have been cut short there. */
  visit(): void {
    if (this.#dueAtMs !== null && this.#dueAtMs > this.#parts.monotonicMs()) this.#mustReload = true;
    this.poke();
  }

  /** Nothing is owed up to `through`, or something durable says when to come back. */
  isSettled(through: number): boolean {
    const { status, caughtUp, behindThrough, dueInMs } = this.#row;
    if (this.#isOver || this.#mustReload) return false;
    if (status === "removed" || status === "halted" || dueInMs !== null) return true;
    return (this.#cursor >= through && caughtUp) || (behindThrough !== null && behindThrough >= through);
  }

  /** True when the line holds nothing that is not in its row. */
  get isIdle(): boolean {
    return this.#pumping === undefined && this.#timer === undefined && !this.#mustReload;
  }

  /** The row, for marking it `behind`. */
  get id(): number {
    return this.#row.id;
  }

  /** The watermark will pass undelivered commits up to `through`; the row says so now. */
  markedBehind(through: number): void {
    this.#row = { ...this.#row, behindThrough: Math.max(through, this.#row.behindThrough ?? 0) };
  }

  /** Begins nothing new; resolves when what is in flight has ended. */
  async drain(): Promise<void> {
    this.#end();
    await this.#pumping;
  }

  readonly #end = (): void => {
    this.#isOver = true;
    this.#isWanted = false;
    this.#clearTimer();
    this.#lease.signal.removeEventListener("abort", this.#end);
  };

  async #pump(): Promise<void> {
    while (this.#isWanted) {
      this.#isWanted = false;
      this.#clearTimer();
      const waitMs = await this.#work().catch((error: unknown) => this.#afterTrouble(error));
      this.#parts.progress.moved(this.#context, this.name);
      if (waitMs !== null && !this.#isOver) this.#timer = setTimeout(() => this.#wake(), waitMs);
    }
  }

  #wake(): void {
    this.#timer = undefined;
    this.poke();
  }

  #clearTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Works until nothing is left to do now. Answers when to come back; null for when poked. */
  async #work(): Promise<number | null> {
    while (!this.#isOver) {
      if (this.#mustReload) await this.#reload();
      if (this.#isOver) return null;
      const dueInMs = this.#dueAtMs === null ? 0 : this.#dueAtMs - this.#parts.monotonicMs();
      if (dueInMs > 0) return dueInMs;
      if (this.#mayOwe && !(await this.#sendOwed())) continue;
      if (this.#hasStopped || this.#isAtHead) return await this.#rest();
      const paceMs = this.#pace.take(this.#parts.monotonicMs());
      if (paceMs > 0) return paceMs;
      await this.#deliverNext();
    }
    return null;
  }

  get #isAtHead(): boolean {
    return this.#cursor >= this.#headOf() && this.#row.caughtUp;
  }

  /** Nothing is delivered any more; what is owed to the log is sent all the same. */
  get #hasStopped(): boolean {
    return this.#row.status === "halted" || this.#row.status === "removed";
  }

  /** Nothing to deliver: nothing may be due either, and a cursor that moved is stored sooner or later. */
  async #rest(): Promise<number | null> {
    if (this.#row.dueInMs !== null)
      await this.#write(endWait(this.#fence()), { status: this.#hasStopped ? this.#row.status : "active", dueInMs: null });
    if (this.#movedSinceMs === null || this.#hasStopped) return null;
    const { offsets, ms } = this.#parts.rules.store;
    const leftMs = this.#movedSinceMs + ms - this.#parts.monotonicMs();
    if (leftMs > 0 && this.#cursor - this.#row.cursor < offsets) return leftMs;
    const cursor = this.#cursor;
    await this.#write(moveCursor(this.#fence(), cursor), { cursor });
    this.#movedSinceMs = null;
    return null;
  }

  /** True when nothing is owed any more. */
  async #sendOwed(): Promise<boolean> {
    const row = this.#row;
    try {
      await this.#parts.outbox.send(row, {
        signal: this.#lease.signal,
        execution: (owed) => this.#parts.attempts.executionFor(owed, this.#context, this.name, this.#lease),
      });
      this.#mayOwe = false;
      return true;
    } catch (error) {
      if (!isPassing(error)) throw error;
      await this.#setBack(
        row,
        { events: 0, lastOffset: this.#cursor },
        { kind: "away", waits: this.#waits + 1, failure: attemptFailure(error) },
      );
      return false;
    }
  }

  async #deliverNext(): Promise<void> {
    const { turns, quarantine } = this.#parts;
    const { owner } = this.#context;
    const releaseQuarantine = this.#row.charge.suspect ? await quarantine.take(owner, this.#lease.signal) : undefined;
    try {
      const release = await turns.take(owner, this.#lease.signal);
      try {
        await this.#deliverInTurn();
      } finally {
        release();
      }
    } finally {
      releaseQuarantine?.();
    }
  }

  async #deliverInTurn(): Promise<void> {
    const row = this.#row;
    const page = await this.#nextPage(row);
    // A row configured anew while the page was read goes on from its own place.
    if (page === undefined || row.version !== this.#row.version) return;
    if (page.events.length === 0 && !(page.atHead && !row.caughtUp)) return this.#moveTo(page.range.through);
    const attempt: Attempt = { lease: this.#lease, row, fence: this.#fence(), page, target: this.#subscription.target };
    const outcome = await this.#parts.attempts.run(attempt).catch((error: unknown) => {
      // It may have been committed before its answer was lost: the row knows.
      this.#mustReload = true;
      throw error;
    });
    if (outcome.kind === "committed") return this.#committed(outcome.row, outcome.owes);
    await this.#setBack(
      row,
      this.#tried(page),
      outcome.kind === "missing"
        ? { kind: "dangling", waits: this.#waits + 1, failure: outcome.failure }
        : this.#counted(outcome.setback),
      attempt,
      outcome.traceId,
    );
  }

  #counted(setback: Setback): Setback {
    return setback.kind === "away" ? { ...setback, waits: this.#waits + 1 } : setback;
  }

  async #nextPage(row: DeliveryRow): Promise<BatchPage | undefined> {
    const { log, rules } = this.#parts;
    const limit = Math.min(rules.batch.events, row.charge.width ?? rules.batch.events);
    const after = this.#cursor;
    try {
      const page = await log.read(
        this.#context,
        { after, limit, types: this.#subscription.consumes },
        { signal: this.#lease.signal },
      );
      return cutPage(page, after, rules.batch);
    } catch (error) {
      const failure = attemptFailure(error);
      const willPass = failure.code !== "EVENT_UNREADABLE" && failure.code !== "OFFSET_TRUNCATED";
      const setback: Setback = willPass ? { kind: "away", waits: this.#waits + 1, failure } : { kind: "failed", failure };
      await this.#setBack(row, { events: 1, lastOffset: after }, setback);
      return undefined;
    }
  }

  #moveTo(cursor: number): void {
    if (cursor <= this.#cursor) return;
    this.#cursor = cursor;
    this.#movedSinceMs ??= this.#parts.monotonicMs();
  }

  #committed(row: DeliveryRow, owes: boolean): void {
    this.#waits = 0;
    this.#mayOwe ||= owes;
    // A reconfiguration that was heard of meanwhile would have made the commit fail, so the row is the newest.
    this.#take(row);
    this.#parts.progress.moved(this.#context, this.name);
  }

  #tried({ events, range }: BatchPage): { events: number; lastOffset: number } {
    return { events: events.length, lastOffset: range.through };
  }

  /** Writes down that what was tried for `row` did not succeed, and what follows from it. A late result says nothing of a newer row. */
  async #setBack(
    row: DeliveryRow,
    tried: { events: number; lastOffset: number },
    setback: Setback,
    attempt?: Attempt,
    traceId?: string,
  ): Promise<void> {
    if (row.version !== this.#row.version) throw new RowChanged("the row was configured anew");
    const verdict = afterSetback(row.charge, tried, setback, this.#parts.rules.charge, this.#parts.random);
    const error = failureText(setback.failure);
    if (setback.kind === "away" || setback.kind === "dangling") this.#waits = setback.waits;
    this.#tell(verdict, setback, tried, traceId);
    if (verdict.kind === "skip") {
      if (attempt === undefined) throw codedError("INTERNAL", "only an attempt can count as done");
      const skipped = await this.#parts.attempts.skip(attempt);
      return this.#committed(skipped, false);
    }
    if (verdict.kind === "retry") {
      const status = this.#hasStopped ? row.status : verdict.status;
      const statement = commitSetback(this.#fence(), { status, charge: verdict.charge, dueInMs: verdict.delayMs, error, owed: [] });
      await this.#write(statement, { status, charge: verdict.charge, dueInMs: verdict.delayMs });
      return;
    }
    const fact = haltFact(
      this.#parts.newId(),
      {
        name: this.name,
        afterOffset: this.#cursor,
        offset: verdict.alone && tried.events === 1 ? tried.lastOffset : null,
        attempts: verdict.attempts,
        failure: setback.failure,
      },
      attributionOf(attempt?.page.events ?? []),
    );
    await this.#write(
      commitSetback(this.#fence(), { status: "halted", charge: verdict.charge, dueInMs: null, error, owed: [fact] }),
      { status: "halted", charge: verdict.charge, dueInMs: null },
    );
    this.#mayOwe = true;
  }

  #tell(verdict: Verdict, { kind, failure }: Setback, tried: { events: number; lastOffset: number }, traceId?: string): void {
    const fields = {
      outcome: kind,
      verdict: verdict.kind,
      ...(verdict.kind === "skip" ? {} : { attempt: verdict.charge.attempt }),
      ...(verdict.kind === "retry" ? { nextTryInMs: verdict.delayMs } : {}),
      ...(verdict.kind === "halt" ? { resumedBy: itx.subscriptionDeliveryResumed.type } : {}),
      code: failure.code,
      reason: failure.message,
      events: tried.events,
      afterOffset: this.#cursor,
      throughOffset: tried.lastOffset,
      ...(traceId === undefined ? {} : { traceId }),
      ...(failure.stack === undefined ? {} : { stack: failure.stack }),
    };
    if (kind === "away" || kind === "dangling") this.#report.info("delivery waits", fields);
    else this.#report.warn("delivery failed", fields);
  }

  #fence(): Fence {
    return { id: this.#row.id, epoch: this.#lease.epoch, version: this.#row.version };
  }

  /** Sends a fenced write and takes what it changed. @throws RowChanged when the fence was lost. */
  async #write(statement: Statement, change: Partial<DeliveryRow>): Promise<void> {
    this.#mustReload = true;
    const { rows } = await this.#parts.db.query<Changed>(statement);
    const [changed] = rows;
    if (changed === undefined) throw new RowChanged("the row was changed by someone else");
    this.#mustReload = false;
    const behindThrough = changed.behind_through === null ? null : Number(changed.behind_through);
    this.#take(
      { ...this.#row, ...change, version: BigInt(changed.version), behindThrough, epoch: this.#lease.epoch },
      this.#cursor,
    );
  }

  /** Takes a row as the newest. The cursor in memory stays ahead only where nothing was written to the row but that. */
  #take(row: DeliveryRow, cursor: number = row.cursor): void {
    this.#row = row;
    this.#cursor = Math.max(cursor, row.cursor);
    if (this.#cursor === row.cursor) this.#movedSinceMs = null;
    this.#dueAtMs = this.#dueAt(row);
  }

  #dueAt({ dueInMs }: DeliveryRow): number | null {
    return dueInMs === null ? null : this.#parts.monotonicMs() + dueInMs;
  }

  async #reload(): Promise<void> {
    const { rows } = await this.#parts.db.query<DeliveryColumns>(rowById(this.#row.id));
    this.#mustReload = false;
    this.#mayOwe = true;
    const row = rows[0] === undefined ? undefined : deliveryRow(rows[0]);
    if (row === undefined || row.epoch > this.#lease.epoch) {
      this.#report.warn("another runner works on this subscription", { epoch: String(this.#lease.epoch) });
      return this.#end();
    }
    this.#take(row);
  }

  /** The database is away, the fence was lost, or the line itself failed: come back, the row says from where. */
  #afterTrouble(error: unknown): number | null {
    if (this.#isOver || this.#lease.signal.aborted) return null;
    if (error instanceof RowChanged) {
      this.#mustReload = true;
      return 0;
    }
    if (errorCode(error) === "STALE_EPOCH") {
      this.#report.warn("another runner owns the partition");
      this.#end();
      return null;
    }
    this.#waits += 1;
    this.#report.warn("delivery is interrupted", { error });
    return ladderDelayMs(this.#waits, this.#parts.rules.charge.waits, this.#parts.random);
  }
}
