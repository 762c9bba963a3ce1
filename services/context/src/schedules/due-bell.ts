/** What makes the loop of schedules look before its time. */
import type { Timers } from "../timers.js";

/** Ends a wait before its time. */
export class DueBell {
  #ring: (() => void) | null = null;
  #isRung = false;

  /** Something may be due earlier than was known. */
  ring(): void {
    if (this.#ring === null) this.#isRung = true;
    else this.#ring();
  }

  /** Resolves after `ms`, when it is rung, at once when it was since the last wait, or when `signal` is aborted. */
  wait(timers: Timers, ms: number, signal: AbortSignal): Promise<void> {
    if (this.#isRung || signal.aborted) {
      this.#isRung = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const end = (): void => {
        cancel();
        signal.removeEventListener("abort", end);
        this.#ring = null;
        resolve();
      };
      const cancel = timers.after(ms, end);
      this.#ring = end;
      signal.addEventListener("abort", end, { once: true });
    });
  }
}
