/**
 * The messages of one direction of a stream as an async iterable that is pulled: nothing is read from the wire before it is asked
 * for (beyond the stream's own small buffer), buffered messages are handed out before a failure is, and leaving the loop early
 * tells the other side.
 */
import type { Readable } from "node:stream";

export interface MessagesOptions {
  /** Turns what the stream failed with into what the reader is thrown. */
  readonly failure: (error: unknown) => Error;
  /** Called once when the reader leaves before the end. */
  readonly abandon: () => void;
}

export class Messages<Message> implements AsyncIterableIterator<Message, undefined> {
  readonly #stream: Readable;
  readonly #options: MessagesOptions;
  #state: "open" | "ended" | "closed" = "open";
  #failure: Error | null = null;
  #waiting: { resolve: (result: IteratorResult<Message, undefined>) => void; reject: (error: Error) => void } | null = null;

  constructor(stream: Readable, options: MessagesOptions) {
    this.#stream = stream;
    this.#options = options;
    stream.on("readable", this.#wake);
    stream.on("end", () => this.stop());
    stream.on("error", (error: unknown) => this.stop(error));
  }

  /** Ends the sequence after what is buffered, with a failure when one is given. */
  stop(error?: unknown): void {
    if (this.#state !== "open") return;
    this.#state = "ended";
    if (error !== undefined) this.#failure = this.#options.failure(error);
    this.#wake();
  }

  next(): Promise<IteratorResult<Message, undefined>> {
    if (this.#state === "closed") return Promise.resolve({ done: true, value: undefined });
    const message = this.#stream.read() as Message | null;
    if (message !== null) return Promise.resolve({ done: false, value: message });
    if (this.#state === "ended") return this.#finish();
    if (this.#waiting !== null) return Promise.reject(new Error("next() was called again before it settled"));
    return new Promise((resolve, reject) => (this.#waiting = { resolve, reject }));
  }

  return(): Promise<IteratorResult<Message, undefined>> {
    const isEarly = this.#state === "open";
    this.#state = "closed";
    this.#settle({ done: true, value: undefined });
    if (isEarly) this.#options.abandon();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  readonly #wake = (): void => {
    if (this.#waiting === null) return;
    const message = this.#stream.read() as Message | null;
    if (message !== null) return this.#settle({ done: false, value: message });
    if (this.#state !== "ended") return;
    const { resolve, reject } = this.#waiting;
    this.#waiting = null;
    this.#finish().then(resolve, reject);
  };

  #settle(result: IteratorResult<Message, undefined>): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.resolve(result);
  }

  #finish(): Promise<IteratorResult<Message, undefined>> {
    this.#state = "closed";
    return this.#failure === null ? Promise.resolve({ done: true, value: undefined }) : Promise.reject(this.#failure);
  }
}
