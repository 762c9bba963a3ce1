/**
 * Turns to work, shared between projects: at most so many at once in all and for one project, handed out round-robin by project and
 * in order of arrival within one. A project that floods waits behind itself.
 */

export interface TurnLimits {
  readonly total: number;
  readonly perProject: number;
}

interface Waiting {
  readonly grant: (release: () => void) => void;
}

export class FairTurns {
  readonly #limits: TurnLimits;
  /** Projects with someone waiting, the next to be served first. */
  readonly #queues = new Map<string, Waiting[]>();
  readonly #taken = new Map<string, number>();
  #total = 0;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** Turns taken now, and callers waiting for one. */
  get counts(): { readonly taken: number; readonly waiting: number } {
    return { taken: this.#total, waiting: [...this.#queues.values()].reduce((sum, queue) => sum + queue.length, 0) };
  }

  /** Resolves with the function that ends the turn (calling it again does nothing). Rejects with the signal's reason. */
  async take(project: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<() => void>();
    const waiting: Waiting = { grant: resolve };
    const queue = this.#queues.get(project);
    if (queue === undefined) this.#queues.set(project, [waiting]);
    else queue.push(waiting);
    const leave = (): void => {
      this.#remove(project, waiting);
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", leave, { once: true });
    this.#serve();
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  #serve(): void {
    for (const [project, queue] of [...this.#queues]) {
      if (this.#total >= this.#limits.total) return;
      if ((this.#taken.get(project) ?? 0) >= this.#limits.perProject) continue;
      const [next] = queue.splice(0, 1);
      // Whoever was served goes to the end of the line.
      this.#queues.delete(project);
      if (queue.length > 0) this.#queues.set(project, queue);
      if (next === undefined) continue;
      this.#total += 1;
      this.#taken.set(project, (this.#taken.get(project) ?? 0) + 1);
      next.grant(this.#releaser(project));
    }
    const isServable = [...this.#queues.keys()].some((project) => (this.#taken.get(project) ?? 0) < this.#limits.perProject);
    if (isServable && this.#total < this.#limits.total) this.#serve();
  }

  #releaser(project: string): () => void {
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.#total -= 1;
      const left = (this.#taken.get(project) ?? 1) - 1;
      if (left === 0) this.#taken.delete(project);
      else this.#taken.set(project, left);
      this.#serve();
    };
  }

  #remove(project: string, waiting: Waiting): void {
    const queue = this.#queues.get(project);
    if (queue === undefined) return;
    const kept = queue.filter((other) => other !== waiting);
    if (kept.length === 0) this.#queues.delete(project);
    else if (kept.length !== queue.length) queue.splice(0, queue.length, ...kept);
  }
}
