/**
 * Verified tokens by their text. A token is checked once and then believed for a minute at most, so its signature costs nothing
 * per call; the cache is bounded and forgets the oldest first.
 */
export class TokenCache<Claims> {
  readonly #entries = new Map<string, { readonly claims: Claims; readonly untilMs: number }>();
  readonly #pending = new Map<string, Promise<Claims>>();
  readonly #nowMs: () => number;
  readonly #maxEntries: number;

  constructor(options: { readonly nowMs: () => number; readonly maxEntries: number }) {
    this.#nowMs = options.nowMs;
    this.#maxEntries = options.maxEntries;
  }

  get size(): number {
    return this.#entries.size;
  }

  /**
   * The claims of `token`: at once when known, else by `verify`, which many callers of the same new token share. `verify` answers
   * the claims and when they expire (ms since 1970); its refusal is not remembered.
   */
  claims(token: string, verify: (token: string) => Promise<{ claims: Claims; expiresAtMs: number }>): Claims | Promise<Claims> {
    const entry = this.#entries.get(token);
    if (entry !== undefined) {
      if (entry.untilMs > this.#nowMs()) return entry.claims;
      this.#entries.delete(token);
    }
    const pending = this.#pending.get(token);
    if (pending !== undefined) return pending;
    const checked = verify(token)
      .then(({ claims, expiresAtMs }) => {
        this.#remember(token, claims, Math.min(expiresAtMs, this.#nowMs() + believedMs));
        return claims;
      })
      .finally(() => this.#pending.delete(token));
    this.#pending.set(token, checked);
    return checked;
  }

  /** Forgets everything, e.g. because the trusted keys changed. */
  clear(): void {
    this.#entries.clear();
  }

  #remember(token: string, claims: Claims, untilMs: number): void {
    if (this.#entries.size >= this.#maxEntries) this.#entries.delete(this.#entries.keys().next().value!);
    this.#entries.set(token, { claims, untilMs });
  }
}

/** How long a checked token is believed: what a revoked key costs at most. */
const believedMs = 60_000;
