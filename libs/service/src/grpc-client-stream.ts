/** The two directions of a client's stream: requests held until it is open and paced by the wire, answers read as they are asked for. */
import type { ClientDuplexStream, ClientWritableStream } from "@grpc/grpc-js";
import { codedError } from "iterate/lib";
import type { Messages } from "./grpc-messages.js";

const sent = Promise.resolve();

/** The answers of a stream that may still be opening. */
export class Responses implements AsyncIterableIterator<unknown, undefined> {
  readonly opened: Promise<Messages<Buffer>>;
  readonly #decode: (bytes: Buffer) => unknown;
  #messages: Messages<Buffer> | null = null;

  constructor(opened: Promise<Messages<Buffer>>, decode: (bytes: Buffer) => unknown) {
    this.opened = opened;
    this.#decode = decode;
    // A failure to open is thrown to the reader; without one it is nobody's.
    opened.then((messages) => (this.#messages = messages)).catch(() => {});
  }

  async next(): Promise<IteratorResult<unknown, undefined>> {
    const messages = this.#messages ?? (await this.opened);
    const result = await messages.next();
    if (result.done === true) return result;
    try {
      return { done: false, value: this.#decode(result.value) };
    } catch (error) {
      await messages.return();
      throw error;
    }
  }

  async return(): Promise<IteratorResult<unknown, undefined>> {
    const messages = await this.opened.catch(() => null);
    await messages?.return();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** The requests of a stream: held until it is open, then paced by the wire. */
export class Outgoing {
  readonly #encode: (request: unknown) => Buffer;
  #stream: Stream | null = null;
  #held: Buffer[] = [];
  readonly #opened = Promise.withResolvers<void>();
  #isEnded = false;
  #isClosed = false;
  #flushed: Promise<void> | null = null;
  #hasRoom: () => void = () => {};

  constructor(encode: (request: unknown) => Buffer) {
    this.#encode = encode;
  }

  attach(stream: Stream): void {
    this.#stream = stream;
    stream.once("status", () => this.close());
    for (const bytes of this.#held.splice(0)) stream.write(bytes);
    if (this.#isEnded) stream.end();
    this.#opened.resolve();
  }

  send(request: unknown): Promise<void> {
    if (this.#isEnded) return Promise.reject(codedError("INVALID_INPUT", "a request was sent after end()"));
    let bytes: Buffer;
    try {
      bytes = this.#encode(request);
    } catch (error) {
      return Promise.reject(error instanceof Error ? error : new Error("a request could not be encoded", { cause: error }));
    }
    if (this.#isClosed) return sent;
    if (this.#stream === null) {
      this.#held.push(bytes);
      return this.#opened.promise;
    }
    if (this.#stream.write(bytes)) return sent;
    this.#flushed ??= this.#drained(this.#stream);
    return this.#flushed;
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (!this.#isClosed) this.#stream?.end();
  }

  /** The call is over: nobody waits for room any more. */
  close(): void {
    this.#isClosed = true;
    this.#held = [];
    this.#opened.resolve();
    this.#hasRoom();
  }

  #drained(stream: Stream): Promise<void> {
    return new Promise((resolve) => {
      this.#hasRoom = () => {
        this.#flushed = null;
        this.#hasRoom = () => {};
        resolve();
      };
      stream.once("drain", () => this.#hasRoom());
    });
  }
}

type Stream = ClientWritableStream<Buffer> | ClientDuplexStream<Buffer, Buffer>;
