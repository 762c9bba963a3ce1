/**
 * Everything this pod hears of work: hints from the broker, the feed of each partition it holds, and rows that come due. It starts and
 * ends the work on partitions as leases come and go, and moves their watermarks. Without the broker everything still happens, by the
 * sweep.
 */
import type { CommitBatch } from "@iterate-platform/proto/iterate/context/v1/feed";
import type { Log } from "@iterate-platform/service/log";
import type { Queryable } from "@iterate-platform/service/postgres";
import { contextsDue, markBehind } from "../delivery/delivery.sql.js";
import type { Lease, PartitionWorker } from "../lease/lease.js";
import { contextsOfLateRuns } from "../runs/run.sql.js";
import type { DeskParts } from "./context-desk.js";
import { FloorReporter } from "./floors.js";
import { PartitionDesk, type PartitionRules } from "./partition-desk.js";
import { storeWatermarks } from "./watermark.sql.js";

/** Where hints come from. */
export interface Hints {
  /** Hears the commits of a bucket until the answered function is called. */
  hear(bucket: number, receive: (batch: CommitBatch) => void): () => void;
  /** Calls back when hints may have been missed. */
  onGap(listener: () => void): () => void;
}

export interface IntakeTimes {
  readonly watermarkMs: number;
  readonly dueMs: number;
  readonly floorsMs: number;
}

export const intakeTimes = { watermarkMs: 2_000, dueMs: 1_000 } as const;

/** What is done again and again. */
export type IntakeLoop = "watermark" | "due" | "floors";

export interface IntakeParts {
  readonly db: Queryable;
  readonly desk: DeskParts;
  readonly hints: Hints;
  readonly bucketOf: (partition: number) => number;
  readonly rules: PartitionRules;
  readonly times: IntakeTimes;
  readonly report: Log;
  /** Called after every round of each loop that succeeded. */
  readonly onTick?: (loop: IntakeLoop) => void;
}

/** Rows looked at in one round; more come due only while these wait for their turn. */
const maxDue = 1_000;

export class Intake implements PartitionWorker {
  readonly #parts: IntakeParts;
  readonly #floors: FloorReporter;
  readonly #desks = new Map<number, PartitionDesk>();
  readonly #heard = new Map<number, () => void>();
  #timers: NodeJS.Timeout[] = [];
  #stopGap: (() => void) | undefined;
  readonly #rounds = new Map<string, Promise<void>>();

  constructor(parts: IntakeParts) {
    this.#parts = parts;
    this.#floors = new FloorReporter(parts.db, parts.desk.log);
  }

  /** Partitions worked on now. */
  get partitions(): number {
    return this.#desks.size;
  }

  /** Begins the loops. */
  open(): void {
    const { watermarkMs, dueMs, floorsMs } = this.#parts.times;
    this.#stopGap = this.#parts.hints.onGap(() => this.#desks.forEach((desk) => desk.sweep()));
    this.#timers = [
      setInterval(() => this.#round("watermark", () => this.#moveWatermarks()), watermarkMs),
      setInterval(() => this.#round("due", () => this.#visitDue()), dueMs),
      setInterval(() => this.#round("floors", () => this.#floors.report([...this.#desks.keys()])), floorsMs),
    ];
  }

  /** Ends the loops; what was worked off is stored once more. */
  async close(): Promise<void> {
    this.#timers.forEach((timer) => clearInterval(timer));
    this.#stopGap?.();
    await Promise.all(this.#rounds.values());
    for (const stop of this.#heard.values()) stop();
    this.#heard.clear();
  }

  start(lease: Lease): void {
    const desk = new PartitionDesk(this.#parts.desk, this.#parts.rules, lease);
    this.#desks.set(lease.partition, desk);
    lease.signal.addEventListener("abort", () => this.#forget(desk), { once: true });
    // Hints are heard before anything is read, so nothing falls between.
    this.#hear(this.#parts.bucketOf(lease.partition));
    desk.start();
  }

  async drain(lease: Lease): Promise<void> {
    const desk = this.#desks.get(lease.partition);
    if (desk?.lease !== lease) return;
    await desk.drain();
    await this.#storePositions([desk]).catch((error: unknown) =>
      this.#parts.report.warn("a watermark was not stored", { error, partition: lease.partition }),
    );
  }

  #forget(desk: PartitionDesk): void {
    const { partition } = desk.lease;
    if (this.#desks.get(partition) === desk) this.#desks.delete(partition);
    const bucket = this.#parts.bucketOf(partition);
    if ([...this.#desks.keys()].some((held) => this.#parts.bucketOf(held) === bucket)) return;
    this.#heard.get(bucket)?.();
    this.#heard.delete(bucket);
  }

  #hear(bucket: number): void {
    if (this.#heard.has(bucket)) return;
    const receive = ({ commits }: CommitBatch): void => {
      for (const { context, partition, lastOffset, lastControl } of commits) {
        if (context === undefined) continue;
        this.#desks.get(partition)?.hear({ ...context, lastOffset: Number(lastOffset), lastControl: Number(lastControl) });
      }
    };
    this.#heard.set(bucket, this.#parts.hints.hear(bucket, receive));
  }

  /** One round at a time of each loop; a slow one is not joined by the next. */
  #round(loop: IntakeLoop, work: () => Promise<void>): void {
    if (this.#rounds.has(loop)) return;
    const round = work()
      .then(() => this.#parts.onTick?.(loop))
      .catch((error: unknown) => this.#parts.report.warn("a round of the intake failed", { loop, error }))
      .finally(() => this.#rounds.delete(loop));
    this.#rounds.set(loop, round);
  }

  async #visitDue(): Promise<void> {
    const partitions = [...this.#desks.keys()];
    if (partitions.length === 0) return;
    const { rows } = await this.#parts.db.query<{ partition: number; owner: string; path: string }>(
      contextsDue(partitions, maxDue),
    );
    for (const { partition, owner, path } of rows) this.#desks.get(partition)?.visit({ owner, path });
    const late = await this.#parts.db.query<{ partition: number; owner: string; path: string }>(
      contextsOfLateRuns(partitions, maxDue),
    );
    for (const { partition, owner, path } of late.rows) this.#desks.get(partition)?.visitRuns({ owner, path });
  }

  /** First the rows that hold a watermark say so themselves, then the watermarks pass them. */
  async #moveWatermarks(): Promise<void> {
    const desks = [...this.#desks.values()];
    const marks = desks.flatMap((desk) => desk.behindMarks().map((mark) => ({ ...mark, epoch: desk.lease.epoch })));
    if (marks.length > 0) {
      const wanted = marks.map(({ line, through, epoch }) => ({ id: line.id, through, epoch }));
      const { rows } = await this.#parts.db.query<{ id: string; through: string }>(markBehind(wanted));
      const marked = new Map(rows.map(({ id, through }) => [Number(id), Number(through)]));
      for (const { line } of marks) {
        const through = marked.get(line.id);
        if (through !== undefined) line.markedBehind(through);
      }
    }
    await this.#storePositions(desks);
  }

  async #storePositions(desks: readonly PartitionDesk[]): Promise<void> {
    const moved = desks.flatMap((desk) => {
      const position = desk.advance();
      return position === null ? [] : [{ desk, partition: desk.lease.partition, position, epoch: desk.lease.epoch }];
    });
    if (moved.length === 0) return;
    await this.#parts.db.query(storeWatermarks(moved));
    for (const { desk, position } of moved) desk.stored(position);
  }
}
