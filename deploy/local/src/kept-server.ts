/**
 * A database or broker server that is started again when it dies, unless it was taken down on purpose.
 */
import { RestartBudget } from "./restart-budget.js";

/** What PostgresServer and NatsServer have in common. */
export interface Server {
  start(): Promise<void>;
  kill(): Promise<void>;
  stop(): Promise<void>;
  lastLines(): string;
  /** Resolves when the process that runs now ends. */
  readonly exited: Promise<unknown>;
}

export class KeptServer {
  readonly #server: Server;
  readonly #onFailed: (lastLines: string) => void;
  readonly #budget = new RestartBudget();
  #isWanted = true;
  #timer: NodeJS.Timeout | undefined;

  constructor(server: Server, onFailed: (lastLines: string) => void) {
    this.#server = server;
    this.#onFailed = onFailed;
    this.#watch();
  }

  /** Ends it as a power cut would; it is started again like after any death. */
  async kill(): Promise<void> {
    await this.#server.kill();
  }

  /** Ends it as a power cut would and keeps it down until `bringUp`. */
  async takeDown(): Promise<void> {
    this.#unwant();
    await this.#server.kill();
  }

  async bringUp(): Promise<void> {
    this.#isWanted = true;
    await this.#server.start();
    this.#watch();
  }

  async stop(): Promise<void> {
    this.#unwant();
    await this.#server.stop();
  }

  #unwant(): void {
    this.#isWanted = false;
    clearTimeout(this.#timer);
  }

  #watch(): void {
    const startedAt = performance.now();
    const ended = this.#server.exited;
    void ended.then(() => {
      // Taken down, or already watched anew.
      if (!this.#isWanted || this.#server.exited !== ended) return;
      this.#again(performance.now() - startedAt);
    });
  }

  #again(ranMs: number): void {
    const delayMs = this.#budget.afterDeath(performance.now(), ranMs);
    if (delayMs === undefined) {
      this.#onFailed(this.#server.lastLines());
      return;
    }
    this.#timer = setTimeout(() => {
      this.#server.start().then(
        () => (this.#isWanted ? this.#watch() : void this.#server.stop()),
        () => this.#again(0),
      );
    }, delayMs);
  }
}
