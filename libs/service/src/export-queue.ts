/**
 * What waits to be exported: bounded, in batches, one export at a time. A full queue drops what comes new; a batch that fails or takes
 * too long is given up and the next one goes out, so a receiver that stalls costs data and never memory, and exports resume by
 * themselves. Everything lost is counted.
 */

export interface ExportQueueOptions<Item> {
  /** Sends one batch; calls back once, with false when it was not taken. May never call back. */
  readonly send: (items: Item[], done: (isTaken: boolean) => void) => void;
  readonly maxQueued?: number;
  readonly maxBatch?: number;
  /** Longest time an item waits for a batch to fill, ms. */
  readonly delayMs?: number;
  /** Bound of one export, ms. */
  readonly timeoutMs?: number;
}

const defaults = { maxQueued: 8_192, maxBatch: 512, delayMs: 1_000, timeoutMs: 10_000 };

export class ExportQueue<Item> {
  readonly #options: ExportQueueOptions<Item> & typeof defaults;
  #items: Item[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | null = null;
  readonly #counts = { exported: 0, dropped: 0, failed: 0 };

  constructor(options: ExportQueueOptions<Item>) {
    this.#options = { ...defaults, ...options };
  }

  get counts(): { exported: number; dropped: number; failed: number; queued: number } {
    return { ...this.#counts, queued: this.#items.length };
  }

  add(item: Item): void {
    if (this.#items.length >= this.#options.maxQueued) {
      this.#counts.dropped += 1;
      return;
    }
    this.#items.push(item);
    if (this.#sending !== null) return;
    if (this.#items.length >= this.#options.maxBatch) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), this.#options.delayMs).unref();
  }

  /** Sends everything that is queued now, or gives up after `boundMs`. */
  async flush(boundMs: number): Promise<void> {
    const endsAt = performance.now() + boundMs;
    while (this.#items.length > 0 || this.#sending !== null) {
      const left = endsAt - performance.now();
      if (left <= 0) return;
      if (this.#sending === null) this.#send();
      const bound = Promise.withResolvers<void>();
      const timer = setTimeout(bound.resolve, left);
      await Promise.race([this.#sending, bound.promise]);
      clearTimeout(timer);
    }
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#items.length === 0) return;
    const batch = this.#items.splice(0, this.#options.maxBatch);
    this.#sending = this.#export(batch).then((isTaken) => {
      this.#counts[isTaken ? "exported" : "failed"] += batch.length;
      this.#sending = null;
      if (this.#items.length >= this.#options.maxBatch) this.#send();
      else if (this.#items.length > 0) this.#timer ??= setTimeout(() => this.#send(), this.#options.delayMs).unref();
    });
  }

  #export(batch: Item[]): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), this.#options.timeoutMs).unref();
      const done = (isTaken: boolean): void => {
        clearTimeout(timer);
        resolve(isTaken);
      };
      try {
        this.#options.send(batch, done);
      } catch {
        done(false);
      }
    });
  }
}
