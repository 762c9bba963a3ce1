/**
 * One context as the owner of its partition sees it: how far its log is known to reach, its subscription table as of the newest
 * control commit heard of, and a line for each subscription.
 *
 * A desk is `behind` while a control commit is known that its rows do not reflect yet; it then describes the context and brings rows
 * and lines in step, again and again until it succeeds. Hints only ever raise what is known; a hint that lies costs one look.
 */
import type { Log } from "@iterate-platform/service/log";
import type { Queryable } from "@iterate-platform/service/postgres";
import type { Subscription } from "@iterate-platform/proto/iterate/context/v1/context";
import type { ContextKey, DeliveryRow } from "../delivery/contract.js";
import { deliveryRow, insertRow, reconfigureRow, rowsOfContext, type DeliveryColumns } from "../delivery/delivery.sql.js";
import type { FairTurns } from "../delivery/fair-turns.js";
import { ladderDelayMs, waitLadder } from "../delivery/ladder.js";
import { SubscriptionLine, type LineParts } from "../delivery/line.js";
import { reconcile, takenTypes, type RowChange, type Subscribed } from "../delivery/reconcile.js";
import { parseTarget } from "../delivery/target.js";
import type { Lease } from "../lease/lease.js";
import type { ContextDescription, ContextLog } from "../log/contract.js";
import type { OpenRuns } from "../runs/open-runs.js";
import { setReportsFloor } from "./floors.sql.js";

export interface DeskParts {
  readonly db: Queryable;
  readonly log: ContextLog;
  readonly line: LineParts;
  /** Turns to look contexts up. */
  readonly looks: FairTurns;
  readonly runs: OpenRuns;
  /** Makes the context refuse what an older owner of the partition still has under way. */
  readonly raiseEpoch: (context: ContextKey, lease: Lease) => Promise<void>;
  readonly report: Log;
  readonly random: () => number;
}

/** Rows may change between reading and writing them; then they are read again, so often at once. */
const maxRounds = 5;

export class ContextDesk {
  readonly key: ContextKey;
  readonly #parts: DeskParts;
  readonly #lease: Lease;
  readonly #lines = new Map<string, SubscriptionLine>();
  #head = 0;
  #controlSeen = 0;
  /** Newest control commit that rows and lines reflect; -1 before the first look. */
  #controlTaken = -1;
  #isWanted = false;
  /** Rows of runs may be there. */
  #hasRuns = false;
  #isOver = false;
  #syncing: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #failures = 0;

  constructor(parts: DeskParts, lease: Lease, key: ContextKey) {
    this.#parts = parts;
    this.#lease = lease;
    this.key = key;
    lease.signal.addEventListener("abort", this.#end, { once: true });
  }

  /** A commit is known. */
  note(lastOffset: number, lastControl: number): void {
    this.#controlSeen = Math.max(this.#controlSeen, lastControl);
    if (lastOffset > this.#head) {
      this.#head = lastOffset;
      for (const line of this.#lines.values()) line.poke();
    }
    if (this.#isBehind) this.#want();
  }

  /** Something of this context is due or owed: make sure that its lines exist and look. */
  visit(): void {
    if (this.#controlTaken < 0) return this.#want();
    for (const line of this.#lines.values()) line.visit();
  }

  /** A run of this context can go on no more: look. */
  visitRuns(): void {
    this.#hasRuns = true;
    this.#want();
  }

  /** Nothing of the commits up to `through` is owed to anyone. */
  isSettled(through: number): boolean {
    return !this.#isBehind && [...this.#lines.values()].every((line) => line.isSettled(through));
  }

  /** Lines that hold the watermark at `through`; none while the desk itself is behind. */
  unsettled(through: number): SubscriptionLine[] {
    return this.#isBehind ? [] : [...this.#lines.values()].filter((line) => !line.isSettled(through));
  }

  /** Nothing here is in memory alone. */
  get isIdle(): boolean {
    return (
      !this.#isBehind &&
      this.#syncing === undefined &&
      this.#retry === undefined &&
      [...this.#lines.values()].every((line) => line.isIdle)
    );
  }

  /** Begins nothing new; resolves when what is in flight has ended. */
  async drain(): Promise<void> {
    this.#end();
    await Promise.all([this.#syncing, ...[...this.#lines.values()].map((line) => line.drain())]);
  }

  get #isBehind(): boolean {
    return this.#controlTaken < 0 || this.#controlSeen > this.#controlTaken;
  }

  #want(): void {
    if (this.#isOver) return;
    this.#isWanted = true;
    this.#syncing ??= this.#sync().finally(() => {
      this.#syncing = undefined;
      if (this.#isWanted) this.#want();
    });
  }

  // A lease outlives many desks: it must not hold those that are gone.
  readonly #end = (): void => {
    this.#isOver = true;
    this.#isWanted = false;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    this.#lease.signal.removeEventListener("abort", this.#end);
  };

  async #sync(): Promise<void> {
    while (this.#isWanted) {
      this.#isWanted = false;
      clearTimeout(this.#retry);
      this.#retry = undefined;
      try {
        const release = await this.#parts.looks.take(this.key.owner, this.#lease.signal);
        await this.#syncOnce().finally(release);
        this.#failures = 0;
      } catch (error) {
        if (this.#isOver || this.#lease.signal.aborted) return;
        this.#failures += 1;
        const delayMs = ladderDelayMs(this.#failures, waitLadder, this.#parts.random);
        this.#parts.report.warn("a context could not be looked up", {
          owner: this.key.owner,
          contextPath: this.key.path,
          error,
          delayMs,
        });
        this.#retry = setTimeout(() => this.#want(), delayMs);
      }
    }
  }

  async #syncOnce(): Promise<void> {
    const isFirst = this.#controlTaken < 0;
    const description = await this.#parts.log.describe(this.key, { signal: this.#lease.signal });
    const subscribed = description.subscriptions.map(subscribedOf);
    const rows = await this.#rowsInStep(subscribed);
    await this.#reportFloors(rows, description.wantsFloors);
    if (isFirst) await this.#raiseEpoch(rows, description);
    await this.#keepRuns(description);
    if (this.#isOver) return;
    this.#takeLines(rows, new Map(subscribed.map((subscription) => [subscription.name, subscription])));
    this.#head = Math.max(this.#head, description.headOffset);
    this.#controlTaken = Math.max(this.#controlTaken, description.lastControl);
    // What was heard of meanwhile is looked at next; a hint of a control commit that is not there is forgotten.
    if (!this.#isWanted) this.#controlSeen = this.#controlTaken;
    for (const line of this.#lines.values()) line.poke();
  }

  async #rowsInStep(subscribed: readonly Subscribed[]): Promise<readonly DeliveryRow[]> {
    for (let round = 0; ; round += 1) {
      const { rows } = await this.#parts.db.query<DeliveryColumns>(rowsOfContext(this.key));
      const found = rows.map(deliveryRow);
      const changes = reconcile(found, subscribed);
      if (changes.length === 0) return found;
      if (round === maxRounds) throw new Error(`rows of ${this.key.path} keep changing under this owner`);
      for (const change of changes) await this.#apply(change);
    }
  }

  async #reportFloors(rows: readonly DeliveryRow[], wantsFloors: boolean): Promise<void> {
    if (rows.some(({ reportsFloor }) => reportsFloor !== wantsFloors))
      await this.#parts.db.query(setReportsFloor(this.key, wantsFloors, this.#lease.epoch));
  }

  async #apply(change: RowChange): Promise<void> {
    const { partition, epoch } = this.#lease;
    if (change.kind === "insert") await this.#parts.db.query(insertRow({ ...change.row, ...this.key, partition, epoch }));
    else await this.#parts.db.query(reconfigureRow({ id: change.row.id, version: change.row.version, epoch }, change.next));
  }

  /** The former owner may still have appends under way for what is unfinished here. */
  async #raiseEpoch(rows: readonly DeliveryRow[], { headOffset }: ContextDescription): Promise<void> {
    const isUnfinished = rows.some(
      (row) => row.epoch < this.#lease.epoch && row.status !== "removed" && (row.cursor < headOffset || row.dueInMs !== null),
    );
    if (isUnfinished) await this.#parts.raiseEpoch(this.key, this.#lease);
  }

  async #keepRuns({ openRuns }: ContextDescription): Promise<void> {
    if (openRuns.length === 0 && !this.#hasRuns) return;
    const open = openRuns.map(({ requestOffset, deadlineMs }) => ({ requestOffset: Number(requestOffset), deadlineMs }));
    const hasEnded = await this.#parts.runs.keepInStep(this.key, this.#lease, open);
    this.#hasRuns = open.length > 0;
    if (hasEnded && !this.#isOver) this.#isWanted = true;
  }

  #takeLines(rows: readonly DeliveryRow[], subscribed: ReadonlyMap<string, Subscribed>): void {
    for (const row of rows) {
      const subscription = subscribed.get(row.name) ?? removed(row);
      const line = this.#lines.get(row.name);
      if (line !== undefined) line.adopt(row, subscription);
      else this.#lines.set(row.name, new SubscriptionLine(this.#parts.line, this.#lease, row, subscription, () => this.#head));
    }
  }
}

/** A row without a subscription still sends what it owes. */
function removed({ name, configuredAt, cursor }: DeliveryRow): Subscribed {
  return { name, target: { kind: "unknown" }, consumes: [], afterOffset: cursor, configuredAt, resumedAt: 0, resumedAfter: null };
}

function subscribedOf(subscription: Subscription): Subscribed {
  return {
    name: subscription.name,
    target: parseTarget(subscription.target),
    consumes: takenTypes(subscription),
    afterOffset: Number(subscription.afterOffset),
    configuredAt: Number(subscription.configuredAtOffset),
    resumedAt: Number(subscription.resumedAtOffset),
    resumedAfter: subscription.resumedAfterOffset === undefined ? null : Number(subscription.resumedAfterOffset),
  };
}
