/** A queue between those who produce the steps of a stream and the one that sends them: ordered, with back-pressure by size. */

interface Item<T> {
  readonly value: T;
  readonly bytes: number;
}

export class Outbox<T> implements AsyncIterable<T> {
  readonly #highWaterBytes: number;
  readonly #items: Item<T>[] = [];
  #bytes = 0;
  #isClosed = false;
  #wakeReader: () => void = () => undefined;
  #wakeWriters: (() => void)[] = [];

  constructor(highWaterBytes: number) {
    this.#highWaterBytes = highWaterBytes;
  }

  /** Resolves once there is room for more. What is pushed after `close` goes nowhere. */
  push(value: T, bytes: number): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    this.#items.push({ value, bytes });
    this.#bytes += bytes;
    this.#wakeReader();
    return this.#bytes <= this.#highWaterBytes ? Promise.resolve() : new Promise((resolve) => this.#wakeWriters.push(resolve));
  }

  /** The reader ends once it has taken what is queued. */
  close(): void {
    this.#isClosed = true;
    this.#wakeReader();
    this.#releaseWriters();
  }

  /** For one reader. Leaving the loop closes the outbox. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    try {
      for (;;) {
        const item = this.#items.shift();
        if (item !== undefined) {
          this.#bytes -= item.bytes;
          if (this.#bytes <= this.#highWaterBytes) this.#releaseWriters();
          yield item.value;
        } else if (this.#isClosed) return;
        else await new Promise<void>((resolve) => (this.#wakeReader = resolve));
      }
    } finally {
      this.close();
    }
  }

  #releaseWriters(): void {
    for (const wake of this.#wakeWriters.splice(0)) wake();
  }
}
