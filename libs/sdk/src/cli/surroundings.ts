/** What the command line takes from the process it runs in, so that tests run it whole. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Writes to standard output; resolves when the reader has room for more. */
  readonly print: (text: string) => Promise<void>;
  /** Writes to standard error. */
  readonly note: (text: string) => void;
  /** All of standard input, as text. */
  readonly readInput: () => Promise<string>;
  /** Aborts when the person interrupts. Until it is asked for, an interrupt ends the process. */
  readonly interruption: () => AbortSignal;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
  /** Resolves after the time, or at once when the signal aborts. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
}
