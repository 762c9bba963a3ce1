/** What a client holds of something that goes on: it can ask when and why it ended, and end it. */
import type { SubscriptionApi } from "iterate/api";
import { ApiTarget } from "./api-target.js";

export interface LongAnswerOptions {
  /** Aborts when the socket is gone. */
  readonly signal: AbortSignal;
  readonly onEnd: () => void;
}

export class LongAnswer extends ApiTarget implements SubscriptionApi {
  readonly #controller = new AbortController();
  readonly #closed: Promise<void>;

  /** `run` goes on until the signal it is given aborts: by the client, or with its socket. */
  constructor({ signal, onEnd }: LongAnswerOptions, run: (signal: AbortSignal) => Promise<void>) {
    super();
    this.#closed = run(AbortSignal.any([signal, this.#controller.signal])).finally(onEnd);
    // Nobody has to ask why it closed.
    this.#closed.catch(() => undefined);
  }

  closed(): Promise<void> {
    return this.#closed;
  }

  [Symbol.dispose](): void {
    this.#controller.abort();
  }
}
