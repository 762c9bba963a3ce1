/**
 * `copy (…) to stdout` over `pg`: what the server sends goes to a listener as it comes, and nothing is held. The driver would make a
 * message object and a buffer of every row and copy all it reads once more, which costs several times what a reader of rows needs; so
 * this query reads the socket itself while it is the one under way, and leaves to the driver every message that is not a row.
 */
import type { Socket } from "node:net";
import type { Connection, PoolClient, Submittable } from "pg";

/** Is given `data[at … end)`, the data of one row, the first with what goes before it; the memory is used again afterwards. */
export type CopyListener = (data: Buffer, at: number, end: number) => void;

const copyData = "d".charCodeAt(0);
const readyForQuery = "Z".charCodeAt(0);
/** A letter and a length, which counts itself. */
const headerBytes = 5;

export class CopyOut implements Submittable {
  readonly text: string;
  readonly #onRow: CopyListener;
  /** What the listener threw. */
  #failure: { readonly thrown: unknown } | null = null;
  /** Listeners of the driver, while this one is in their place. */
  #drivers: ((data: Buffer) => void)[] = [];
  #socket!: Socket;
  /** The beginning of a message that has not come whole. */
  #begun: Buffer[] = [];
  #begunBytes = 0;
  /** The driver was given a part of what was received last. */
  #isShared = false;
  readonly #ended = Promise.withResolvers<void>();
  /** How queries of the driver end, and where its instrumentation looks. */
  callback = (error: Error | null): void => {
    if (error !== null) this.#ended.reject(error);
    else if (this.#failure === null) this.#ended.resolve();
    else this.#ended.reject(this.#failure.thrown);
  };

  constructor(text: string, onRow: CopyListener) {
    this.text = text;
    this.#onRow = onRow;
  }

  /**
   * Resolves once everything has come. What the listener throws is thrown after the server has sent the rest, which nobody sees: the
   * connection is whole then.
   */
  sendOn(client: PoolClient): Promise<void> {
    client.query(this);
    return this.#ended.promise;
  }

  /** Called when everything before it is answered: nothing of another query is on its way. */
  submit(connection: Connection): void {
    const { stream, query } = connection as unknown as { stream: Socket; query: (text: string) => void };
    this.#socket = stream;
    this.#drivers = stream.listeners("data") as ((data: Buffer) => void)[];
    stream.on("data", this.#receive);
    for (const listener of this.#drivers) stream.off("data", listener);
    query.call(connection, this.text);
  }

  handleError(error: Error): void {
    this.callback(error);
  }

  handleReadyForQuery(): void {
    this.callback(null);
  }

  handleCommandComplete(): void {}

  readonly #receive = (data: Buffer): void => {
    this.#isShared = false;
    let at = this.#begunBytes === 0 ? 0 : this.#complete(data);
    while (data.length - at >= headerBytes) {
      const end = at + 1 + data.readUInt32BE(at + 1);
      if (end > data.length) break;
      if (!this.#message(data, at, end)) return;
      at = end;
    }
    if (at < data.length) this.#begin(data.subarray(at));
    // Waiting for the collector would make it run for the sake of these alone, through all that the process holds.
    if (!this.#isShared && data.byteLength === data.buffer.byteLength) (data.buffer as ArrayBuffer).transfer(0);
  };

  /** Adds to the message that is begun what it lacks; answers where the next one begins. */
  #complete(data: Buffer): number {
    let at = 0;
    if (this.#begunBytes < headerBytes) {
      at = Math.min(data.length, headerBytes - this.#begunBytes);
      this.#begin(data.subarray(0, at));
      if (this.#begunBytes < headerBytes) return at;
      this.#begun = [Buffer.concat(this.#begun)];
    }
    const end = at + 1 + this.#begun[0]!.readUInt32BE(1) - this.#begunBytes;
    if (end > data.length) {
      this.#begin(data.subarray(at));
      return data.length;
    }
    const message = Buffer.concat([...this.#begun, data.subarray(at, end)]);
    this.#begun = [];
    this.#begunBytes = 0;
    if (!this.#message(message, 0, message.length)) {
      for (const listener of this.#drivers) if (end < data.length) listener.call(this.#socket, data.subarray(end));
      return data.length;
    }
    return end;
  }

  #begin(part: Buffer): void {
    this.#begun.push(Buffer.from(part));
    this.#begunBytes += part.length;
  }

  /** False when it was the last one, and everything from it on was given to the driver. */
  #message(data: Buffer, at: number, end: number): boolean {
    const kind = data[at];
    if (kind === copyData) {
      this.#row(data, at + headerBytes, end);
      return true;
    }
    this.#isShared = true;
    const isLast = kind === readyForQuery;
    if (isLast) {
      for (const listener of this.#drivers) this.#socket.on("data", listener);
      this.#socket.off("data", this.#receive);
    }
    for (const listener of this.#drivers) listener.call(this.#socket, data.subarray(at, isLast ? data.length : end));
    return !isLast;
  }

  #row(data: Buffer, at: number, end: number): void {
    if (this.#failure !== null) return;
    try {
      this.#onRow(data, at, end);
    } catch (thrown) {
      this.#failure = { thrown };
    }
  }
}
