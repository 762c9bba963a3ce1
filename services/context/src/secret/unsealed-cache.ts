/**
 * Unsealed secrets kept in memory for a short while, so that a burst of webhooks opens its envelope once. An entry belongs to one
 * commit of its context: whoever asks names the commit that is current, so a rotated secret is never answered from here.
 */
interface Entry {
  readonly commitNo: number;
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

  /** The material set by the state of `key` at `commitNo`, if it is still here. The caller must not keep it. */
  get(key: string, commitNo: number): Buffer | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (entry.commitNo !== commitNo || entry.untilMs <= this.#options.nowMs()) {
      this.#forget(key, entry);
      return undefined;
    }
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.material;
  }

  set(key: string, commitNo: number, material: Buffer): void {
    const held = this.#entries.get(key);
    if (held !== undefined) this.#forget(key, held);
    this.#entries.set(key, { commitNo, material, untilMs: this.#options.nowMs() + this.#options.ttlMs });
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
