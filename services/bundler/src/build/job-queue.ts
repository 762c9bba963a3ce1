/** Lets a bounded number of jobs run at once and a bounded number wait, in order of arrival. */
import { CodedError, codedError } from "iterate/lib";

export interface JobQueueOptions {
  readonly maxRunning: number;
  readonly maxWaiting: number;
}

interface Waiting {
  readonly start: () => void;
}

export class JobQueue {
  readonly #options: JobQueueOptions;
  readonly #waiting = new Set<Waiting>();
  #running = 0;

  constructor(options: JobQueueOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Runs `job` when it is its turn. Throws OVERLOADED when too many wait, CANCELLED when `signal` fires before the turn. */
  async run<Result>(signal: AbortSignal, job: () => Promise<Result>): Promise<Result> {
    await this.#turn(signal);
    try {
      return await job();
    } finally {
      this.#next();
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw codedError("CANCELLED", "the caller went away");
    if (this.#running < this.#options.maxRunning) {
      this.#running += 1;
      return;
    }
    if (this.#waiting.size >= this.#options.maxWaiting) {
      throw new CodedError(
        "OVERLOADED",
        `${this.#running} jobs run and ${this.#waiting.size} wait, which is the limit; retry later`,
        { retryAfterMs: 1000 },
      );
    }
    await new Promise<void>((resolve, reject) => {
      const waiting: Waiting = {
        start: () => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      const onAbort = (): void => {
        this.#waiting.delete(waiting);
        reject(codedError("CANCELLED", "the caller went away"));
      };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiting.add(waiting);
    });
  }

  /** The slot passes to the longest-waiting job without becoming free in between. */
  #next(): void {
    const [waiting] = this.#waiting;
    if (waiting === undefined) {
      this.#running -= 1;
      return;
    }
    this.#waiting.delete(waiting);
    waiting.start();
  }
}
