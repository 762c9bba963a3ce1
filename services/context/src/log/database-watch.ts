/** Asks a database every few seconds whether it answers: what readiness is told, whatever traffic there is. */
import type { Progress } from "@iterate-platform/service/admin";
import type { Log } from "@iterate-platform/service/log";

const pingEveryMs = 5_000;

export interface DatabaseWatchParts {
  readonly ping: () => Promise<void>;
  readonly progress: Progress;
  readonly log: Log;
}

export class DatabaseWatch {
  readonly #parts: DatabaseWatchParts;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(parts: DatabaseWatchParts) {
    this.#parts = parts;
    void this.#ask();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #ask(): Promise<void> {
    const { ping, progress, log } = this.#parts;
    try {
      await ping();
      progress.tick();
    } catch (error) {
      if (!this.#isClosed) log.warn("the database does not answer", { error });
    }
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#ask(), pingEveryMs);
  }
}
