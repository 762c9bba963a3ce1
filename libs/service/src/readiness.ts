/**
 * Whether this process can do its work: it has started, it is not draining, and every loop it runs ticked within its bound. A loop
 * ticks when it made progress, not when it merely lives; what waits on another service is no reason to be unready.
 */

export interface Progress {
  /** The loop went round, or its dependency answered. */
  tick(): void;
  /** The loop has ended on purpose and is no longer expected to tick. */
  end(): void;
}

export class Readiness {
  readonly #nowMs: () => number;
  readonly #loops = new Map<string, { boundMs: number; tickedAtMs: number }>();
  #phase: "starting" | "started" | "draining" = "starting";

  /** `nowMs` is a monotonic clock. */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Registers a loop that must tick at least every `boundMs`, counted from now. Throws when the name is taken. */
  progress(name: string, boundMs: number): Progress {
    if (this.#loops.has(name)) throw new Error(`a loop ${JSON.stringify(name)} reports progress already`);
    const loop = { boundMs, tickedAtMs: this.#nowMs() };
    this.#loops.set(name, loop);
    return {
      tick: () => void (loop.tickedAtMs = this.#nowMs()),
      end: () => void this.#loops.delete(name),
    };
  }

  /** Everything is composed and listening. */
  started(): void {
    if (this.#phase === "starting") this.#phase = "started";
  }

  /** No new work: for the rest of the process's life. */
  draining(): void {
    this.#phase = "draining";
  }

  /** Why the process is not ready, one sentence each; empty when it is. */
  problems(): string[] {
    const now = this.#nowMs();
    const late = [...this.#loops].filter(([, loop]) => now - loop.tickedAtMs > loop.boundMs);
    const sentences = late.map(
      ([name, loop]) => `${name} made no progress for ${Math.round(now - loop.tickedAtMs)} ms, its bound is ${loop.boundMs} ms`,
    );
    return this.#phase === "started" ? sentences : [`the process is ${this.#phase}`, ...sentences];
  }

  /** Milliseconds since each loop ticked. */
  ages(): { readonly name: string; readonly ageMs: number }[] {
    const now = this.#nowMs();
    return [...this.#loops].map(([name, loop]) => ({ name, ageMs: now - loop.tickedAtMs }));
  }
}
