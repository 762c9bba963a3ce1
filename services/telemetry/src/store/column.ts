/**
 * One column of rows that wait to be stored, as the binary array parameter Postgres takes it in: values are written as they arrive,
 * so what waits costs its bytes and nothing else, and a batch is sent without being encoded again.
 *
 * Layout: dimensions, null flag, element type, then length and lower bound of the one dimension; each element is its length (−1 for
 * null) and its bytes. An array without elements has no dimension.
 */
const oid = { bool: 16, int8: 20, int2: 21, int4: 23, text: 25, uuid: 2950 } as const;

const headerBytes = 20;
const firstBytes = 4_096;

export interface ColumnMark {
  readonly length: number;
  readonly end: number;
  readonly hasNulls: boolean;
}

export class Column {
  readonly #type: keyof typeof oid;
  #buffer = Buffer.allocUnsafe(firstBytes);
  #length = 0;
  #end = headerBytes;
  #hasNulls = false;

  constructor(type: keyof typeof oid) {
    this.#type = type;
  }

  get length(): number {
    return this.#length;
  }

  /** Bytes of the values so far. */
  get bytes(): number {
    return this.#end;
  }

  int8(value: bigint): void {
    const at = this.#element(8);
    this.#buffer.writeBigInt64BE(value, at);
  }

  int4(value: number): void {
    const at = this.#element(4);
    this.#buffer.writeInt32BE(value, at);
  }

  int2(value: number): void {
    const at = this.#element(2);
    this.#buffer.writeInt16BE(value, at);
  }

  bool(value: boolean): void {
    const at = this.#element(1);
    this.#buffer[at] = value ? 1 : 0;
  }

  /** A text without NUL. A lone surrogate becomes U+FFFD. */
  text(value: string): void {
    // UTF-8 takes at most three bytes for each UTF-16 unit.
    this.#reserve(4 + value.length * 3);
    const length = this.#buffer.write(value, this.#end + 4);
    this.#buffer.writeInt32BE(length, this.#end);
    this.#end += 4 + length;
    this.#length += 1;
  }

  /** Sixteen bytes. */
  uuid(value: Uint8Array): void {
    const at = this.#element(16);
    this.#buffer.set(value, at);
  }

  null(): void {
    this.#reserve(4);
    this.#buffer.writeInt32BE(-1, this.#end);
    this.#end += 4;
    this.#length += 1;
    this.#hasNulls = true;
  }

  mark(): ColumnMark {
    return { length: this.#length, end: this.#end, hasNulls: this.#hasNulls };
  }

  /** Forgets the values added after the mark. */
  rewind({ length, end, hasNulls }: ColumnMark): void {
    this.#length = length;
    this.#end = end;
    this.#hasNulls = hasNulls;
  }

  /** The parameter. It shares the column's memory: add nothing while it is in use. */
  parameter(): Buffer {
    const isEmpty = this.#length === 0;
    this.#buffer.writeInt32BE(isEmpty ? 0 : 1, 0);
    this.#buffer.writeInt32BE(this.#hasNulls ? 1 : 0, 4);
    this.#buffer.writeInt32BE(oid[this.#type], 8);
    this.#buffer.writeInt32BE(this.#length, 12);
    this.#buffer.writeInt32BE(1, 16);
    return this.#buffer.subarray(0, isEmpty ? 12 : this.#end);
  }

  /** Where a value of a fixed size goes. */
  #element(bytes: number): number {
    this.#reserve(4 + bytes);
    this.#buffer.writeInt32BE(bytes, this.#end);
    const at = this.#end + 4;
    this.#end = at + bytes;
    this.#length += 1;
    return at;
  }

  #reserve(bytes: number): void {
    const needed = this.#end + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(larger, 0, 0, this.#end);
    this.#buffer = larger;
  }
}
