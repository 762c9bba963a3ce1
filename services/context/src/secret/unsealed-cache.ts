/**
 * Unsealed secrets kept in memory for a short while, so that a burst of webhooks opens its envelope once. An entry belongs to one
 * value of its secret: whoever asks names the value that is current, so a rotated secret is never answered from here.
 */
interface Entry {
  /** Offset of the fact that set it. */
  readonly setAtOffset: number;
  readonly material: Buffer;
  readonly untilMs: number;
}

export interface UnsealedCacheOptions {
  readonly maxEntries: number;
  readonly ttlMs: number;
  /** Monotonic milliseconds. */
  readonly nowMs: () => number;
}

export class UnsealedCache {
  readonly #options: UnsealedCacheOptions;
  /** In order of last use. */
  readonly #entries = new Map<string, Entry>();

  constructor(options: UnsealedCacheOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The material that the fact at `setAtOffset` set, if it is still here. It is overwritten when it is let go: use it in this turn. */
  get(key: string, setAtOffset: number): Buffer | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry.setAtOffset !== setAtOffset || entry.untilMs <= this.#options.nowMs()) {
      this.#forget(key, entry);
      return undefined;
    }
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.material;
  }

  set(key: string, setAtOffset: number, material: Buffer): void {
    const held = this.#entries.get(key);
    if (held !== undefined) this.#forget(key, held);
    this.#entries.set(key, { setAtOffset, material, untilMs: this.#options.nowMs() + this.#options.ttlMs });
    for (const [oldest, entry] of this.#entries) {
      if (this.#entries.size <= this.#options.maxEntries) break;
      this.#forget(oldest, entry);
    }
  }

  /** Removes what is past its time, so that an unused secret does not stay until it is asked for. */
  sweep(): void {
    const now = this.#options.nowMs();
    for (const [key, entry] of this.#entries) if (entry.untilMs <= now) this.#forget(key, entry);
  }

  clear(): void {
    for (const [key, entry] of this.#entries) this.#forget(key, entry);
  }

  #forget(key: string, entry: Entry): void {
    this.#entries.delete(key);
    entry.material.fill(0);
  }
}
