/** An event of the simulated log in the form of a copy. */
import { smallBodyBytes, type EventBytes, type StoredEvent } from "../../src/log/log-store.js";

export class SimulatedEventBytes implements EventBytes {
  readonly memory: Buffer;
  readonly source: number;
  readonly sourceEnd: number;
  readonly traceparent: number;
  readonly traceparentEnd: number;
  readonly key: number;
  readonly keyEnd: number;
  readonly payload: number;
  readonly payloadEnd: number;
  readonly metadata: number;
  readonly metadataEnd: number;
  readonly #stored: StoredEvent;

  constructor(stored: StoredEvent) {
    this.#stored = stored;
    const parts: Buffer[] = [];
    let length = 0;
    const place = (text: string | null): [from: number, end: number] => {
      if (text === null) return [length, -1];
      const bytes = Buffer.from(text);
      parts.push(bytes);
      length += bytes.length;
      return [length - bytes.length, length];
    };
    [this.source, this.sourceEnd] = place(stored.source);
    [this.traceparent, this.traceparentEnd] = place(stored.traceparent);
    [this.key, this.keyEnd] = place(stored.idempotencyKey);
    [this.payload, this.payloadEnd] = place(stored.payload);
    [this.metadata, this.metadataEnd] = place(stored.metadata);
    this.memory = Buffer.concat(parts);
  }

  get offset(): number {
    return this.#stored.offset;
  }

  get type(): number {
    return this.#stored.type;
  }

  get formatVersion(): number {
    return this.#stored.formatVersion;
  }

  get createdAtUs(): number {
    return this.#stored.createdAtUs;
  }

  get bodyBytes(): number {
    return this.#stored.bodyBytes;
  }

  get isWithoutBodies(): boolean {
    return this.bodyBytes > smallBodyBytes;
  }

  toStored(): StoredEvent {
    return this.#stored;
  }
}
