/**
 * One nats-server as a child process, for tests and for the one-machine stack.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TiedChild } from "./child.js";
import { freePort, PortBusyError } from "./free-port.js";
import { ensureNatsServer } from "./nats-binary.js";

export interface NatsUser {
  user: string;
  password: string;
  /** Subjects it may publish to and subscribe to; everything when left out. */
  permissions?: { publish: readonly string[]; subscribe: readonly string[] };
}

export interface NatsServerOptions {
  /** Where its configuration and JetStream's files live. */
  folder: string;
  /** A port of 127.0.0.1; a free one unless told. Kept over restarts. */
  port?: number;
  jetstream?: boolean;
  /** Nobody else may connect when given. */
  users?: readonly NatsUser[];
  /** JetStream's file store, bytes. 2 GiB unless told. */
  maxFileStoreBytes?: number;
  onLine?: (line: string) => void;
}

const readyWithinMs = 15_000;
const portTries = 5;

export class NatsServer {
  readonly #options: NatsServerOptions;
  readonly #binary: string;
  #port = 0;
  #child: TiedChild | undefined;

  private constructor(options: NatsServerOptions, binary: string) {
    this.#options = options;
    this.#binary = binary;
  }

  /**
   * Starts a server; ready when it accepts clients.
   *
   * @throws PortBusyError when the port asked for is taken; Error with the server's last lines when it does not come up in 15 s;
   *   Error naming the remedies when there is no nats-server on this machine.
   */
  static async start(options: NatsServerOptions): Promise<NatsServer> {
    const server = new NatsServer(options, await ensureNatsServer());
    for (let attempt = 1; ; attempt++) {
      server.#port = options.port ?? (await freePort());
      try {
        await server.start();
        return server;
      } catch (error) {
        const mayMove = error instanceof PortBusyError && options.port === undefined && attempt < portTries;
        if (!mayMove) throw error;
      }
    }
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return `nats://127.0.0.1:${this.#port}`;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get exited(): Promise<unknown> {
    return this.#child?.exited ?? Promise.resolve();
  }

  lastLines(): string {
    return this.#child?.lastLines() ?? "";
  }

  /** Starts it again on the same port and files after `kill` or `stop`; does nothing while it runs. */
  async start(): Promise<void> {
    if (this.#child?.isRunning) return;
    mkdirSync(this.#options.folder, { recursive: true, mode: 0o700 });
    const file = join(this.#options.folder, "nats.conf");
    writeFileSync(file, configuration(this.#options, this.#port), { mode: 0o600 });
    let announceReady: () => void = () => undefined;
    const ready = new Promise<"ready">((resolve) => (announceReady = () => resolve("ready")));
    const child = new TiedChild(this.#binary, ["-c", file], {
      deathSignal: "SIGTERM",
      onLine: (line) => {
        if (line.includes("Server is ready")) announceReady();
        this.#options.onLine?.(line);
      },
    });
    this.#child = child;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<"late">((resolve) => (timer = setTimeout(() => resolve("late"), readyWithinMs)));
    const outcome = await Promise.race([ready, late, child.exited.then(() => "ended" as const)]);
    clearTimeout(timer);
    if (outcome === "ready") return;
    await child.stop([{ signal: "SIGKILL", waitMs: 5_000 }]);
    if (/address already in use/i.test(child.lastLines())) throw new PortBusyError(this.#port);
    throw new Error(`nats-server did not come up on port ${this.#port} (${outcome}):\n${child.lastLines()}`);
  }

  /** Ends it as a power cut would. */
  async kill(): Promise<void> {
    await this.#child?.stop([{ signal: "SIGKILL", waitMs: 5_000 }]);
  }

  /** Holds it still (SIGSTOP): its connections stay open and nothing answers, until `thaw`. */
  freeze(): void {
    this.#child?.signal("SIGSTOP");
  }

  thaw(): void {
    this.#child?.signal("SIGCONT");
  }

  async stop(): Promise<void> {
    this.thaw();
    await this.#child?.stop([
      { signal: "SIGTERM", waitMs: 5_000 },
      { signal: "SIGKILL", waitMs: 2_000 },
    ]);
  }
}

function configuration(options: NatsServerOptions, port: number): string {
  const lines = [`host: 127.0.0.1`, `port: ${port}`];
  if (options.jetstream) {
    const storeBytes = options.maxFileStoreBytes ?? 2 * 1024 ** 3;
    const store = JSON.stringify(join(options.folder, "jetstream"));
    lines.push(`jetstream { store_dir: ${store}, max_mem: 67108864, max_file: ${storeBytes} }`);
  }
  if (options.users) {
    // The configuration language is a superset of JSON.
    lines.push(`authorization { users: ${JSON.stringify(options.users)} }`);
  }
  return `${lines.join("\n")}\n`;
}
