/** Splits a byte stream into lines of bounded length: what an isolate writes has no end and no newline it must respect. */

export class LineSplitter {
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  #bytes = 0;
  #isSkipping = false;
  #hasSkipped = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** True once a line outgrew the bound: it was skipped, or is being skipped, up to its newline. */
  get hasSkipped(): boolean {
    return this.#hasSkipped;
  }

  /** The lines that `chunk` completes, without their newline. */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = [];
    let from = 0;
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, from)) {
      this.#add(chunk.subarray(from, end));
      if (!this.#isSkipping) lines.push(this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts));
      this.#clear();
      this.#isSkipping = false;
      from = end + 1;
    }
    this.#add(chunk.subarray(from));
    return lines;
  }

  #add(part: Buffer): void {
    if (part.byteLength === 0 && this.#parts.length > 0) return;
    this.#bytes += part.byteLength;
    if (this.#bytes > this.#maxBytes) {
      this.#clear();
      this.#isSkipping = this.#hasSkipped = true;
    }
    if (!this.#isSkipping) this.#parts.push(part);
  }

  #clear(): void {
    this.#parts = [];
    this.#bytes = 0;
  }
}
