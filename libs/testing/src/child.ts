/**
 * Child processes that never outlive the process that started them, and that end within a bound. Where the system has
 * util-linux `setpriv`, the kernel itself ends the child when its parent dies, even by SIGKILL.
 */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

export interface TiedChildOptions {
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** The user to run as; only root may name one. */
  user?: { uid: number; gid: number };
  /** What the kernel sends the child when its parent dies. SIGKILL unless told. */
  deathSignal?: "SIGKILL" | "SIGINT" | "SIGTERM" | "SIGQUIT";
  /** Sees every line of both outputs. */
  onLine?: (line: string) => void;
}

/** How a child ended. */
export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** One rung of a stop: a signal and how long it may take effect. */
export interface StopRung {
  signal: NodeJS.Signals;
  waitMs: number;
}

const keptLines = 40;

export class TiedChild {
  readonly #process: ChildProcess;
  readonly #lines: string[] = [];
  #exit: Exit | undefined;
  /** Resolves when the process has ended and its outputs are read; rejects only when it could not be started at all. */
  readonly exited: Promise<Exit>;

  constructor(command: string, args: readonly string[], options: TiedChildOptions = {}) {
    const tied = tie(command, args, options.deathSignal ?? "SIGKILL");
    this.#process = spawn(tied.command, tied.args, {
      cwd: options.cwd,
      env: options.env ?? process.env,
      uid: options.user?.uid,
      gid: options.user?.gid,
      stdio: ["ignore", "pipe", "pipe"],
      // A terminal's Ctrl-C reaches the parent alone, which stops its children in order.
      detached: true,
    });
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on("line", (line) => {
        this.#lines.push(line);
        if (this.#lines.length > keptLines) this.#lines.shift();
        options.onLine?.(line);
      });
    }
    this.exited = new Promise((resolve, reject) => {
      this.#process.once("error", reject);
      this.#process.once("close", (code, signal) => {
        this.#exit = { code, signal };
        resolve(this.#exit);
      });
    });
    // Whoever cares awaits `exited`; a child nobody waits for must not end this process.
    this.exited.catch(() => undefined);
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  get isRunning(): boolean {
    return this.#exit === undefined && this.#process.exitCode === null && this.#process.signalCode === null;
  }

  /** The last lines it wrote, at most 40. */
  lastLines(): string {
    return this.#lines.join("\n");
  }

  signal(name: NodeJS.Signals): void {
    if (this.isRunning) this.#process.kill(name);
  }

  /** Climbs the rungs until the process has ended. Answers at once when it already has. */
  async stop(rungs: readonly StopRung[]): Promise<Exit> {
    for (const rung of rungs) {
      if (!this.isRunning) break;
      this.#process.kill(rung.signal);
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, rung.waitMs)));
      await Promise.race([this.exited, late]);
      clearTimeout(timer);
    }
    if (this.isRunning) throw new Error(`process ${this.pid} survived ${rungs.map((rung) => rung.signal).join(", ")}`);
    return await this.exited;
  }
}

let hasDeathSignals: boolean | undefined;

function tie(command: string, args: readonly string[], deathSignal: string): { command: string; args: string[] } {
  hasDeathSignals ??= canTie();
  if (!hasDeathSignals) return { command, args: [...args] };
  return { command: "setpriv", args: ["--pdeathsig", deathSignal.replace(/^SIG/, ""), "--", command, ...args] };
}

function canTie(): boolean {
  try {
    execFileSync("setpriv", ["--pdeathsig", "KILL", "--", "true"], { stdio: "ignore", timeout: 5_000 });
    return true;
  } catch {
    return false;
  }
}
