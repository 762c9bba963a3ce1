/**
 * One service as a process that is kept alive. States: `starting` (not ready yet) → `ready` → (death) → `waiting` (for its next start) →
 * `starting` …, `stopped` by `stop`, and `failed` when it dies too often to be started again.
 */
import { TiedChild } from "@iterate-platform/testing/child";
import { RestartBudget } from "./restart-budget.js";

export type ProcessState = "starting" | "ready" | "waiting" | "stopped" | "failed";

export interface SupervisedOptions {
  name: string;
  command: string;
  args: readonly string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Answers 200 once the service is ready. */
  readyUrl: string;
  onLine: (line: string) => void;
  /** Told once, when it is not started again. */
  onFailed: (lastLines: string) => void;
  /** When to start it again; a new budget unless told. */
  budget?: RestartBudget;
}

const readyPollMs = 50;
const readyAnswerWithinMs = 1_000;
const drainMs = 15_000;

export class SupervisedProcess {
  readonly #options: SupervisedOptions;
  readonly #budget: RestartBudget;
  #state: ProcessState = "stopped";
  #child: TiedChild | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  #starts = 0;
  #lastLines = "";

  constructor(options: SupervisedOptions) {
    this.#options = options;
    this.#budget = options.budget ?? new RestartBudget();
  }

  get state(): ProcessState {
    return this.#state;
  }

  get pid(): number | undefined {
    return this.#child?.isRunning === true ? this.#child.pid : undefined;
  }

  /** How often it was started. */
  get starts(): number {
    return this.#starts;
  }

  start(): void {
    if (this.#child?.isRunning === true) return;
    clearTimeout(this.#restartTimer);
    this.#state = "starting";
    this.#starts++;
    const startedAt = performance.now();
    const { command, args, cwd, env, onLine } = this.#options;
    const child = new TiedChild(command, args, { cwd, env, onLine, deathSignal: "SIGTERM" });
    this.#child = child;
    child.exited.then(
      () => this.#died(child, startedAt),
      (error: Error) => {
        onLine(error.message);
        this.#died(child, startedAt);
      },
    );
    void this.#watchReadiness(child);
  }

  /**
   * Waits until it is ready.
   *
   * @throws Error with its last lines when it is not within the bound, or when it was given up meanwhile.
   */
  async ready(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    while (this.#state !== "ready") {
      if (this.#state === "failed" || this.#state === "stopped" || performance.now() > deadline) {
        throw new Error(
          `${this.#options.name} is ${this.#state}, not ready after ${timeoutMs} ms; its last lines:\n${this.lastLines()}`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, readyPollMs));
    }
  }

  /** The last lines of the process that runs, or of the last that did. */
  lastLines(): string {
    return this.#child?.lastLines() || this.#lastLines;
  }

  /** Ends the process as the kernel would (SIGKILL); it is started again like after any death. */
  async kill(): Promise<void> {
    await this.#child?.stop([{ signal: "SIGKILL", waitMs: 5_000 }]);
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.signal(name);
  }

  /** Lets it drain, for at most 15 s, and keeps it down. */
  async stop(): Promise<void> {
    clearTimeout(this.#restartTimer);
    this.#state = "stopped";
    // A process held still gets its signal when it goes on.
    this.#child?.signal("SIGCONT");
    await this.#child?.stop([
      { signal: "SIGTERM", waitMs: drainMs },
      { signal: "SIGKILL", waitMs: 5_000 },
    ]);
  }

  #died(child: TiedChild, startedAt: number): void {
    if (child !== this.#child || this.#state === "stopped") return;
    this.#lastLines = child.lastLines();
    const delayMs = this.#budget.afterDeath(performance.now(), performance.now() - startedAt);
    if (delayMs === undefined) {
      this.#state = "failed";
      this.#options.onFailed(this.#lastLines);
      return;
    }
    this.#state = "waiting";
    this.#restartTimer = setTimeout(() => this.start(), delayMs);
  }

  async #watchReadiness(child: TiedChild): Promise<void> {
    while (child === this.#child && child.isRunning && this.#state === "starting") {
      if ((await answersOk(this.#options.readyUrl)) && child === this.#child && child.isRunning && this.state === "starting") {
        this.#state = "ready";
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, readyPollMs));
    }
  }
}

async function answersOk(url: string): Promise<boolean> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(readyAnswerWithinMs) });
    await answer.body?.cancel();
    return answer.ok;
  } catch {
    return false;
  }
}
