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

  /**
   * Resolves after `ms`, when it is rung, at once when it was since the last wait, or when `signal` is aborted. Answers whether it was
   * rung.
   */
  wait(timers: Timers, ms: number, signal: AbortSignal): Promise<boolean> {
    if (this.#isRung || signal.aborted) {
      const isRung = this.#isRung;
      this.#isRung = false;
      return Promise.resolve(isRung);
    }
    return new Promise((resolve) => {
      const end = (isRung: boolean): void => {
        cancel();
        signal.removeEventListener("abort", stop);
        this.#ring = null;
        resolve(isRung);
      };
      const stop = (): void => end(false);
      const cancel = timers.after(ms, stop);
      this.#ring = () => end(true);
      signal.addEventListener("abort", stop, { once: true });
    });
  }
}
