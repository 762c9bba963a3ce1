/**
 * Memory of encoded pages, which is used for one page after the other. It is large, and the collector counts it: what were given to it
 * would make it look through everything the process holds every few dozen pages.
 */
const firstBytes = 131_072;
const maxSpares = 8;
/** A page grows beyond it only for large bodies. */
const maxSpareBytes = 2_097_152;

class PageMemory {
  readonly #spares: Buffer[] = [];

  take(): Buffer {
    return this.#spares.pop() ?? Buffer.allocUnsafeSlow(firstBytes);
  }

  /** Takes back memory that nobody looks at any more. */
  give(memory: Buffer): void {
    if (this.#spares.length < maxSpares && memory.length <= maxSpareBytes) this.#spares.push(memory);
  }
}

/** That of the process. */
export const pageMemory = new PageMemory();
