/**
 * Stores what waits, one statement at a time: `waiting` (a row came) → `gathering` (others join) → `storing` → (`backing off` →
 * `storing`)* → stored or dropped. While the database is away the queues fill to their bound and senders are told to wait; what has
 * waited too long makes room for what is new. Everything dropped is counted.
 */
import { context, ROOT_CONTEXT } from "@opentelemetry/api";
import type { Progress } from "@iterate-platform/service/admin";
import type { Log } from "@iterate-platform/service/log";
import { sqlState, type Queryable } from "@iterate-platform/service/postgres";
import { codedError, isCodedError } from "iterate/lib";
import type { Batch } from "./batch.js";
import type { BatchQueue, Waiting } from "./batch-queue.js";
import type { Partitions } from "./partitions.js";

export type Signal = "traces" | "logs";

export interface WriterLane {
  readonly signal: Signal;
  readonly queue: BatchQueue<Batch>;
}

export interface WriterOptions {
  readonly db: Queryable;
  readonly lanes: readonly WriterLane[];
  readonly partitions: Pick<Partitions, "ensure" | "forget">;
  readonly log: Log;
  readonly nowMs: () => number;
  /** Resolves after the time, or at once when the signal aborts. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Ticked whenever the loop goes round. */
  readonly progress?: Progress;
  readonly onStored: (signal: Signal, rows: number) => void;
  readonly onDropped: (signal: Signal, rows: number) => void;
}

/** How long the first row waits for others. */
const gatherMs = 200;
/** The loop goes round at least this often. */
const idleMs = 10_000;
/** Waits between attempts of one batch; the last one repeats until the batch is too old. */
export const retryLadderMs = [100, 250, 500, 1_000, 2_000, 5_000] as const;
/** What waited longer is dropped. */
export const maxWaitMs = 600_000;
/** Attempts of a batch that the database refuses for its own sake. */
const maxRefusals = 3;
const noPartition = "23514";

export class Writer {
  readonly #options: WriterOptions;
  readonly #stopping = new AbortController();
  readonly #ended = new AbortController();
  #wake = new AbortController();
  #running: Promise<void> | null = null;
  #turn = 0;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  /** There is something to store. */
  wake(): void {
    this.#wake.abort();
  }

  /** Begins to store, until `stop`. No span is made of it, whoever woke it. */
  start(): void {
    this.#running ??= context.with(ROOT_CONTEXT, () => this.#run());
  }

  /** Stores what waits and ends, within about `boundMs`; what is left then is dropped and counted. Idempotent. */
  async stop(boundMs: number): Promise<void> {
    this.#stopping.abort();
    this.wake();
    const timer = setTimeout(() => this.#ended.abort(), boundMs);
    await this.#running;
    clearTimeout(timer);
    for (const { signal, queue } of this.#options.lanes) {
      if (queue.rows === 0) continue;
      this.#options.log.warn("the process ends before everything was stored", { signal, dropped: queue.rows });
      this.#options.onDropped(signal, queue.rows);
    }
  }

  async #run(): Promise<void> {
    const { lanes, progress, pause } = this.#options;
    while (!this.#ended.signal.aborted) {
      progress?.tick();
      const lane = this.#next();
      if (lane === null) {
        if (this.#stopping.signal.aborted) return;
        if (!this.#wake.signal.aborted) await pause(idleMs, this.#wake.signal);
        this.#wake = new AbortController();
        continue;
      }
      const isBusy = lanes.some(({ queue }) => queue.hasSealed);
      if (!isBusy) await pause(this.#untilGathered(lane), this.#stopping.signal);
      const waiting = lane.queue.take();
      if (waiting === null) continue;
      await this.#store(lane, waiting);
      lane.queue.settle();
    }
  }

  /** The lane whose turn it is, of those that have something. */
  #next(): WriterLane | null {
    const { lanes } = this.#options;
    for (let step = 0; step < lanes.length; step += 1) {
      const lane = lanes[(this.#turn + step) % lanes.length]!;
      if (lane.queue.waitingSinceMs === null) continue;
      this.#turn = (this.#turn + step + 1) % lanes.length;
      return lane;
    }
    return null;
  }

  #untilGathered({ queue }: WriterLane): number {
    return Math.max(0, (queue.waitingSinceMs ?? 0) + gatherMs - this.#options.nowMs());
  }

  async #store({ signal }: WriterLane, { batch, sinceMs }: Waiting<Batch>): Promise<void> {
    const { db, partitions, log, nowMs, pause, progress, onStored, onDropped } = this.#options;
    let refusals = 0;
    for (let attempt = 0; ; attempt += 1) {
      try {
        await this.#unlessEnded(async () => {
          await partitions.ensure();
          await db.query(batch.statement());
        });
        if (attempt > 0) log.info("the database takes telemetry again", { signal, attempts: attempt + 1 });
        return onStored(signal, batch.rows);
      } catch (error) {
        if (!isCodedError(error) && sqlState(error) !== noPartition) refusals += 1;
        if (sqlState(error) === noPartition) partitions.forget();
        if (attempt === 0) log.warn("telemetry waits for the database", { signal, rows: batch.rows, error });
        const isHopeless = refusals >= maxRefusals;
        if (isHopeless || nowMs() - sinceMs > maxWaitMs || this.#ended.signal.aborted) {
          log.error("telemetry is dropped", {
            signal,
            rows: batch.rows,
            reason: isHopeless ? "the database refuses it" : "it waited too long",
            error,
          });
          return onDropped(signal, batch.rows);
        }
        await pause(retryLadderMs[Math.min(attempt, retryLadderMs.length - 1)]!, this.#ended.signal);
        progress?.tick();
      }
    }
  }

  /** A statement that is under way at the end is not waited for: what it stores may be counted as dropped. */
  async #unlessEnded(act: () => Promise<void>): Promise<void> {
    const ended = Promise.withResolvers<never>();
    const end = (): void => ended.reject(codedError("CANCELLED", "the process ends"));
    this.#ended.signal.addEventListener("abort", end, { once: true });
    try {
      await Promise.race([act(), ended.promise]);
    } finally {
      this.#ended.signal.removeEventListener("abort", end);
    }
  }
}
