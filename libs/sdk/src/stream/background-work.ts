/** The works one batch left running: held back until its checkpoint is kept, then started together; works may add works. */
import { codedError } from "../lib/coded-error.js";

export class BackgroundWork {
  readonly #onFailure: (error: unknown, offset: number | null) => void;
  readonly #held: (() => void)[] = [];
  readonly #running = new Set<Promise<void>>();
  #phase: "held" | "started" | "settled" = "held";

  constructor(onFailure: (error: unknown, offset: number | null) => void) {
    this.#onFailure = onFailure;
  }

  /** Works added so far. */
  get count(): number {
    return this.#held.length + this.#running.size;
  }

  /** Throws INVALID_INPUT once everything has ended: nobody would know of the work. */
  add(work: () => unknown, offset: number | null): void {
    if (this.#phase === "settled")
      throw codedError("INVALID_INPUT", "runInBackground was called after the batch and its background work had ended");
    const begin = (): void => {
      const running: Promise<void> = this.#run(work, offset).finally(() => this.#running.delete(running));
      this.#running.add(running);
    };
    if (this.#phase === "started") begin();
    else this.#held.push(begin);
  }

  start(): void {
    this.#phase = "started";
    for (const begin of this.#held.splice(0)) begin();
  }

  /** Resolves when every work has ended, those added meanwhile included. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
    this.#phase = "settled";
  }

  async #run(work: () => unknown, offset: number | null): Promise<void> {
    try {
      await work();
    } catch (thrown) {
      this.#onFailure(thrown, offset);
    }
  }
}
