/** A service from its sources as a process of its own, which dies with the test run that started it, however that ends. */
import { TiedChild, type Exit } from "./child.js";

export interface ServiceProcessOptions {
  /** Arguments after the program, e.g. `["migrate"]`. */
  readonly args?: readonly string[];
  /** Modules loaded before the program. */
  readonly preload?: readonly string[];
  /** Sees every line it writes. */
  readonly onLine?: (line: string) => void;
}

const startWithinMs = 60_000;
const fromSource = ["--conditions=iterate-source", "--import", import.meta.resolve("tsx")];

export class ServiceProcess {
  readonly #child: TiedChild;
  readonly #serving: Promise<Readonly<Record<string, number>> | undefined>;
  /** Says how the wait for it to serve ended; only the first call counts. */
  #settle!: (ports: Readonly<Record<string, number>> | undefined) => void;
  /** Everything it wrote. */
  readonly lines: string[] = [];
  #ports: Readonly<Record<string, number>> = {};

  private constructor(program: string | readonly string[], env: Readonly<Record<string, string>>, options: ServiceProcessOptions) {
    this.#serving = new Promise((resolve) => (this.#settle = resolve));
    const preloads = (options.preload ?? []).flatMap((module) => ["--import", module]);
    const node = typeof program === "string" ? [...fromSource, ...preloads, program] : program;
    this.#child = new TiedChild(process.execPath, [...node, ...(options.args ?? [])], {
      // Nothing else of the test's environment: what a service needs is what it is told.
      env: { PATH: process.env["PATH"], ...env },
      onLine: (line) => {
        this.lines.push(line);
        options.onLine?.(line);
        const ports = servingPorts(line);
        if (ports !== undefined) this.#settle(ports);
      },
    });
    void this.#child.exited.then(() => this.#settle(undefined));
  }

  /**
   * Starts `program`, the path of a TypeScript file or all arguments of Node, and resolves once it serves.
   *
   * @throws Error with everything it wrote when it ends before, or does not serve within a minute.
   */
  static async start(
    program: string | readonly string[],
    env: Readonly<Record<string, string>>,
    options: ServiceProcessOptions = {},
  ): Promise<ServiceProcess> {
    const started = new ServiceProcess(program, env, options);
    const timer = setTimeout(() => started.#settle(undefined), startWithinMs);
    const ports = await started.#serving;
    clearTimeout(timer);
    if (ports === undefined) {
      await started.end("SIGKILL");
      throw new Error(`${String(program)} did not come to serve:\n${started.lines.join("\n")}`);
    }
    started.#ports = ports;
    return started;
  }

  /** Starts one that need not come to serve: a command, or a process that is to die before. */
  static spawn(
    program: string | readonly string[],
    env: Readonly<Record<string, string>>,
    options: ServiceProcessOptions = {},
  ): ServiceProcess {
    return new ServiceProcess(program, env, options);
  }

  /** Its listeners by name. */
  get ports(): Readonly<Record<string, number>> {
    return this.#ports;
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get isRunning(): boolean {
    return this.#child.isRunning;
  }

  /** Resolves to how it ended, whatever the reason. */
  get exited(): Promise<Exit> {
    return this.#child.exited;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.signal(signal);
  }

  /** Ends it and resolves to how it ended; by SIGKILL when `signal` has not ended it within `withinMs`. */
  async end(signal: NodeJS.Signals = "SIGTERM", withinMs = 15_000): Promise<Exit> {
    return this.#child.stop([
      { signal, waitMs: withinMs },
      { signal: "SIGKILL", waitMs: 5_000 },
    ]);
  }
}

function servingPorts(line: string): Readonly<Record<string, number>> | undefined {
  if (!line.includes('"serving"')) return undefined;
  try {
    const { message, ports } = JSON.parse(line) as { message?: string; ports?: Record<string, number> };
    return message === "serving" ? ports : undefined;
  } catch {
    return undefined;
  }
}
