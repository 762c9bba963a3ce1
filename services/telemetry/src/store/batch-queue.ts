/**
 * What waits to be stored of one signal, within a bound of bytes. Rows go into the open batch; a batch that is large enough is sealed
 * and a new one opened, so that one statement stays short. What is being stored still counts as waiting.
 */
import { CodedError } from "iterate/lib";
import type { Batch } from "./batch.js";

export interface BatchQueueOptions<Rows extends Batch> {
  readonly create: () => Rows;
  readonly maxBytes: number;
  readonly nowMs: () => number;
  /** Called when there is something to store. */
  readonly onRows: () => void;
}

export interface Waiting<Rows extends Batch> {
  readonly batch: Rows;
  /** When its first row came. */
  readonly sinceMs: number;
}

/** A batch is sealed at either; rows of one export stay together, so it may be larger by one export. */
export const maxBatchRows = 4_096;
export const maxBatchBytes = 4_194_304;

/** What a refused sender is told to wait, ms. */
const retryAfterMs = 1_000;

export class BatchQueue<Rows extends Batch> {
  readonly #options: BatchQueueOptions<Rows>;
  #open: Waiting<Rows> | null = null;
  readonly #sealed: Waiting<Rows>[] = [];
  #storing: Waiting<Rows> | null = null;
  #sealedBytes = 0;

  constructor(options: BatchQueueOptions<Rows>) {
    this.#options = options;
  }

  /** Bytes that wait, those being stored among them. */
  get bytes(): number {
    return this.#sealedBytes + (this.#open?.batch.bytes ?? 0) + (this.#storing?.batch.bytes ?? 0);
  }

  /** Rows that wait, those being stored among them. */
  get rows(): number {
    return [...this.#sealed, this.#open, this.#storing].reduce((rows, waiting) => rows + (waiting?.batch.rows ?? 0), 0);
  }

  /** Throws OVERLOADED when `incoming` more bytes would be too many. */
  checkRoom(incoming: number): void {
    const { maxBytes } = this.#options;
    if (this.bytes + incoming <= maxBytes) return;
    throw new CodedError(
      "OVERLOADED",
      `${this.bytes} bytes wait for the database and ${incoming} more would pass the limit of ${maxBytes}; send again later`,
      {
        retryAfterMs,
        data: { limit: maxBytes },
      },
    );
  }

  /** Lets `fill` add the rows of one export: all it adds stays, or nothing when it throws. */
  add<Result>(fill: (batch: Rows) => Result): Result {
    const waiting = this.#open ?? { batch: this.#options.create(), sinceMs: this.#options.nowMs() };
    const { batch } = waiting;
    const mark = batch.mark();
    try {
      return fill(batch);
    } catch (error) {
      batch.rewind(mark);
      throw error;
    } finally {
      if (batch.rows > 0) {
        this.#open = waiting;
        if (batch.rows >= maxBatchRows || batch.bytes >= maxBatchBytes) this.#seal(waiting);
        this.#options.onRows();
      }
    }
  }

  /** Whether a whole batch waits. */
  get hasSealed(): boolean {
    return this.#sealed.length > 0;
  }

  /** Since when the oldest row waits that is not being stored; null when none does. */
  get waitingSinceMs(): number | null {
    return this.#sealed[0]?.sinceMs ?? this.#open?.sinceMs ?? null;
  }

  /** Takes the oldest batch to store it; `settle` follows before the next. */
  take(): Waiting<Rows> | null {
    if (this.#sealed.length === 0 && this.#open !== null) this.#seal(this.#open);
    const next = this.#sealed.shift() ?? null;
    if (next !== null) this.#sealedBytes -= next.batch.bytes;
    this.#storing = next;
    return next;
  }

  /** What was taken is stored, or given up. */
  settle(): void {
    this.#storing = null;
  }

  #seal(waiting: Waiting<Rows>): void {
    this.#sealed.push(waiting);
    this.#sealedBytes += waiting.batch.bytes;
    this.#open = null;
  }
}
