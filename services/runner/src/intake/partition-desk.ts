/**
 * The work on one partition while its lease is held. Take-over: rows that are not at rest, then the feed after the watermark; from
 * then on hints as they come and the feed by a sweep, which is the truth behind the hints and costs what changed.
 */
import { failpoint } from "@iterate-platform/service/failpoints";
import type { Queryable } from "@iterate-platform/service/postgres";
import type { ContextKey } from "../delivery/contract.js";
import { contextsNotAtRest } from "../delivery/delivery.sql.js";
import { ladderDelayMs, waitLadder } from "../delivery/ladder.js";
import type { SubscriptionLine } from "../delivery/line.js";
import type { Lease } from "../lease/lease.js";
import type { FeedCommit } from "../log/contract.js";
import { contextsOfOlderRuns } from "../runs/run.sql.js";
import { ContextDesk, type DeskParts } from "./context-desk.js";
import { Watermark } from "./watermark.js";
import { watermarks } from "./watermark.sql.js";

export interface PartitionRules {
  /** Between two sweeps of the feed. */
  readonly sweepMs: number;
  /** Pages of the feed that may wait to be worked off before it is read no further. */
  readonly pendingPages: number;
  /** Contexts kept in memory although nothing is to do for them. */
  readonly idleDesks: number;
}

export const partitionRules: PartitionRules = { sweepMs: 5_000, pendingPages: 100, idleDesks: 256 };

const rowsPage = 1_000;

export interface BehindMark {
  readonly line: SubscriptionLine;
  readonly through: number;
}

export class PartitionDesk {
  readonly lease: Lease;
  readonly #parts: DeskParts;
  readonly #db: Queryable;
  readonly #rules: PartitionRules;
  readonly #desks = new Map<string, ContextDesk>();
  #watermark: Watermark | undefined;
  #storedPosition = "";
  #isOver = false;
  #running: Promise<void> | undefined;
  #isSweepWanted = true;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;

  constructor(parts: DeskParts, rules: PartitionRules, lease: Lease) {
    this.#parts = parts;
    this.#db = parts.db;
    this.#rules = rules;
    this.lease = lease;
    lease.signal.addEventListener("abort", () => this.#end(), { once: true });
  }

  /** Takes over. Returns at once; what is away is tried again. */
  start(): void {
    this.sweep();
  }

  /** A hint: some commit of this partition. */
  hear({ owner, path, lastOffset, lastControl }: Pick<FeedCommit, "owner" | "path" | "lastOffset" | "lastControl">): void {
    if (!this.#isOver) this.#desk({ owner, path }).note(lastOffset, lastControl);
  }

  /** Something of a context is due. */
  visit(key: ContextKey): void {
    if (!this.#isOver) this.#desk(key).visit();
  }

  /** A run of a context is past its deadline. */
  visitRuns(key: ContextKey): void {
    if (!this.#isOver) this.#desk(key).visitRuns();
  }

  /** Reads the feed now. */
  sweep(): void {
    if (this.#isOver) return;
    this.#isSweepWanted = true;
    this.#running ??= this.#sweepAll().finally(() => {
      this.#running = undefined;
      if (this.#isSweepWanted) this.sweep();
    });
  }

  /** What would hold the watermark although its row can say so itself: each is to be marked `behind`. */
  behindMarks(): BehindMark[] {
    const owed = this.#watermark?.owed(this.#isSettled) ?? new Map<string, number>();
    return [...owed].flatMap(([context, through]) =>
      (this.#desks.get(context)?.unsettled(through) ?? []).map((line) => ({ line, through })),
    );
  }

  /** Moves the watermark over what is settled. Answers the position to store; null when it is stored. */
  advance(): string | null {
    if (this.#watermark === undefined) return null;
    this.#watermark.advance(this.#isSettled);
    if (this.#watermark.pending === 0) this.#forgetIdle();
    return this.#watermark.position === this.#storedPosition ? null : this.#watermark.position;
  }

  /** The position is in the database. */
  stored(position: string): void {
    this.#storedPosition = position;
  }

  async drain(): Promise<void> {
    this.#end();
    await Promise.all([this.#running, ...[...this.#desks.values()].map((desk) => desk.drain())]);
  }

  readonly #isSettled = (context: string, through: number): boolean => this.#desks.get(context)?.isSettled(through) ?? false;

  #end(): void {
    this.#isOver = true;
    this.#isSweepWanted = false;
    clearTimeout(this.#timer);
  }

  async #sweepAll(): Promise<void> {
    while (this.#isSweepWanted) {
      this.#isSweepWanted = false;
      clearTimeout(this.#timer);
      let nextMs = this.#rules.sweepMs;
      try {
        const watermark = this.#watermark ?? (await this.#takeOver());
        await this.#readFeed(watermark);
        this.#failures = 0;
        // Pods that started together do not sweep together.
        nextMs *= 0.75 + this.#parts.random() / 2;
      } catch (error) {
        if (this.#isOver || this.lease.signal.aborted) return;
        this.#failures += 1;
        nextMs = ladderDelayMs(this.#failures, { ...waitLadder, capMs: this.#rules.sweepMs }, this.#parts.random);
        this.#parts.report.warn("a partition's feed could not be read", {
          partition: this.lease.partition,
          error,
          delayMs: nextMs,
        });
      }
      if (!this.#isOver) this.#timer = setTimeout(() => this.sweep(), nextMs);
    }
  }

  /** Rows not at rest are visited before the feed is read: the watermark may have passed what they owe. */
  async #takeOver(): Promise<Watermark> {
    const { partition } = this.lease;
    const { rows } = await this.#db.query<{ position: string }>(watermarks([partition]));
    for (let after = 0; ;) {
      const found = await this.#db.query<{ id: string; owner: string; path: string }>(
        contextsNotAtRest(partition, after, rowsPage),
      );
      for (const { owner, path } of found.rows) this.visit({ owner, path });
      const last = found.rows.at(-1);
      if (last === undefined || found.rows.length < rowsPage) break;
      after = Number(last.id);
    }
    await this.#visitOlderRuns();
    await failpoint("partition.taken-over");
    this.#storedPosition = rows[0]?.position ?? "";
    return (this.#watermark = new Watermark(this.#storedPosition));
  }

  async #visitOlderRuns(): Promise<void> {
    const { partition, epoch } = this.lease;
    for (let after: ContextKey | null = null; ;) {
      const found: { rows: ContextKey[] } = await this.#db.query<ContextKey>(
        contextsOfOlderRuns(partition, epoch, after, rowsPage),
      );
      for (const { owner, path } of found.rows) this.visitRuns({ owner, path });
      after = found.rows.at(-1) ?? null;
      if (after === null || found.rows.length < rowsPage) return;
    }
  }

  async #readFeed(watermark: Watermark): Promise<void> {
    let after = watermark.noted;
    while (!this.#isOver && watermark.pending < this.#rules.pendingPages) {
      const page = await this.#parts.log.feed(this.lease.partition, after, { signal: this.lease.signal });
      if (page.next === after && page.commits.length === 0) return;
      const commits = new Map<string, number>();
      for (const commit of page.commits) {
        const key = contextKey(commit);
        commits.set(key, Math.max(commit.lastOffset, commits.get(key) ?? 0));
      }
      watermark.note({ position: page.next, commits });
      for (const commit of page.commits) this.hear(commit);
      after = page.next;
      if (page.atHead) return;
    }
  }

  #desk(key: ContextKey): ContextDesk {
    const name = contextKey(key);
    const held = this.#desks.get(name);
    if (held !== undefined) return held;
    const desk = new ContextDesk(this.#parts, this.lease, { owner: key.owner, path: key.path });
    this.#desks.set(name, desk);
    return desk;
  }

  /** Only while no page waits: a desk that is gone could not say that its commits are settled. */
  #forgetIdle(): void {
    if (this.#desks.size <= this.#rules.idleDesks) return;
    for (const [name, desk] of this.#desks) {
      if (this.#desks.size <= this.#rules.idleDesks) return;
      if (!desk.isIdle) continue;
      this.#desks.delete(name);
      void desk.drain();
    }
  }
}

function contextKey({ owner, path }: ContextKey): string {
  return `${owner}\0${path}`;
}
