/** A growing buffer of protobuf wire format: as much of it as pages of events are made of. */

/** From here on a number is more than its low 32 bits. */
const twoTo28 = 2 ** 28;

/** Bytes of a varint of `value`, a whole number from 0 to 2^53 − 1. */
export function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size += 1;
  return size;
}

export class Bytes {
  #buffer: Buffer;
  #length = 0;

  /** Writes into `memory` as long as it has room. */
  constructor(memory: Buffer | number) {
    this.#buffer = typeof memory === "number" ? Buffer.allocUnsafe(memory) : memory;
  }

  /** The memory written to, to be used again by others. */
  get memory(): Buffer {
    return this.#buffer;
  }

  get length(): number {
    return this.#length;
  }

  /** What was written, in memory of this buffer. */
  written(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Makes room for `count` bytes, which the writes that follow rely on. */
  reserve(count: number): void {
    const needed = this.#length + count;
    if (needed <= this.#buffer.length) return;
    const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.#buffer.length));
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }

  byte(value: number): void {
    this.#buffer[this.#length++] = value;
  }

  /** A whole number from 0 to 2^53 − 1. */
  varint(value: number): void {
    let rest = value;
    if (rest >= twoTo28) {
      const low = rest % twoTo28;
      this.byte((low & 0x7f) | 0x80);
      this.byte(((low >>> 7) & 0x7f) | 0x80);
      this.byte(((low >>> 14) & 0x7f) | 0x80);
      this.byte(((low >>> 21) & 0x7f) | 0x80);
      rest = (rest - low) / twoTo28;
    }
    for (; rest >= 128; rest >>>= 7) this.byte((rest & 0x7f) | 0x80);
    this.byte(rest);
  }

  /** A field that holds a number. */
  number(tag: number, value: number): void {
    this.byte(tag);
    this.varint(value);
  }

  /** A field that holds `source[at … end)`. */
  field(tag: number, source: Buffer, at: number, end: number): void {
    this.byte(tag);
    this.varint(end - at);
    this.copy(source, at, end);
  }

  copy(source: Buffer, at: number, end: number): void {
    source.copy(this.#buffer, this.#length, at, end);
    this.#length += end - at;
  }
}
