/**
 * One embedded Postgres as a child process: made, started, killed, started again on the same data. Used by tests for throw-away
 * servers and by the one-machine stack for a lasting one.
 */
import { randomBytes } from "node:crypto";
import { chownSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { serverAccount, temporaryFolder } from "./account.js";
import { TiedChild } from "./child.js";
import { freePort, PortBusyError } from "./free-port.js";
import { postgresBinaries } from "./postgres-binaries.js";

export interface PostgresServerOptions {
  /** Where its files live; made when missing. Its parents must let the server's account pass (see account.ts). */
  dataDir: string;
  /** The superuser's password; taken when the data is made and needed at every start after. */
  password: string;
  /** A port of 127.0.0.1; a free one unless told. Kept over restarts. */
  port?: number;
  /** Configuration parameters, as postgresql.conf names them. */
  settings?: Readonly<Record<string, string>>;
  /** Sees every line the server logs. */
  onLine?: (line: string) => void;
}

/** For data that is thrown away: commits survive the death of the server (tests kill it), not that of the machine. */
export const scratchSettings: Readonly<Record<string, string>> = { fsync: "off", full_page_writes: "off" };

/** For measuring: every commit reaches the disk, and checkpoints are as far apart as a deployment has them. */
export const durableSettings: Readonly<Record<string, string>> = {
  fsync: "on",
  full_page_writes: "on",
  synchronous_commit: "on",
  shared_buffers: "512MB",
  max_wal_size: "4GB",
};

const readyWithinMs = 30_000;
const portTries = 5;

export class PostgresServer {
  readonly #options: PostgresServerOptions;
  #port = 0;
  #child: TiedChild | undefined;

  private constructor(options: PostgresServerOptions) {
    this.#options = options;
  }

  /**
   * Starts a server, after making its data when `dataDir` holds none; ready when it answers.
   *
   * @throws PortBusyError when the port asked for is taken; Error with the server's last lines when it does not come up in 30 s.
   */
  static async start(options: PostgresServerOptions): Promise<PostgresServer> {
    const server = new PostgresServer(options);
    if (!existsSync(join(options.dataDir, "PG_VERSION"))) await initialise(options);
    for (let attempt = 1; ; attempt++) {
      server.#port = options.port ?? (await freePort());
      try {
        await server.#launch();
        return server;
      } catch (error) {
        const mayMove = error instanceof PortBusyError && options.port === undefined && attempt < portTries;
        if (!mayMove) throw error;
      }
    }
  }

  /** Where its data is: may be copied and put back while the server is stopped. */
  get dataDir(): string {
    return this.#options.dataDir;
  }

  get port(): number {
    return this.#port;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** The superuser's URL of the database `postgres`, or of the database named. */
  adminUrl(database = "postgres"): string {
    return `postgres://postgres:${encodeURIComponent(this.#options.password)}@127.0.0.1:${this.#port}/${database}`;
  }

  /** Resolves when the server ends, for whatever reason. */
  get exited(): Promise<unknown> {
    return this.#child?.exited ?? Promise.resolve();
  }

  lastLines(): string {
    return this.#child?.lastLines() ?? "";
  }

  /** Ends it as a power cut would (SIGKILL): what was committed is recovered by the next start. */
  async kill(): Promise<void> {
    await this.#child?.stop([{ signal: "SIGKILL", waitMs: 5_000 }]);
  }

  /** Starts it again on the same data and port after `kill` or `stop`; does nothing while it runs. */
  async start(): Promise<void> {
    if (!this.#child?.isRunning) await this.#launch();
  }

  /** Stops it cleanly, cutting its clients; harder after 5 s. */
  async stop(): Promise<void> {
    await this.#child?.stop([
      { signal: "SIGINT", waitMs: 5_000 },
      { signal: "SIGQUIT", waitMs: 3_000 },
      { signal: "SIGKILL", waitMs: 2_000 },
    ]);
  }

  /** Ends it and removes its data. */
  async destroy(): Promise<void> {
    await this.#child?.stop([
      { signal: "SIGQUIT", waitMs: 3_000 },
      { signal: "SIGKILL", waitMs: 2_000 },
    ]);
    rmSync(this.#options.dataDir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }

  async #launch(): Promise<void> {
    const deadline = performance.now() + readyWithinMs;
    for (;;) {
      try {
        this.#child = await launch(this.#options, this.#port, deadline);
        return;
      } catch (error) {
        // After a kill the backends hold the shared memory for a moment longer than their parent.
        const isLeaving = error instanceof Error && /shared memory block|lock file "postmaster\.pid"/.test(error.message);
        if (!isLeaving || performance.now() > deadline - readyWithinMs + 5_000) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }
}

async function initialise(options: PostgresServerOptions): Promise<void> {
  const account = serverAccount();
  mkdirSync(dirname(options.dataDir), { recursive: true });
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  if (account) chownSync(options.dataDir, account.uid, account.gid);
  // initdb takes the password from a file alone; the folder keeps it from everyone else while it exists.
  const folder = temporaryFolder("pg-password-", account);
  const passwordFile = join(folder, "password");
  try {
    writeFileSync(passwordFile, `${options.password}\n`, { mode: 0o600 });
    if (account) chownSync(passwordFile, account.uid, account.gid);
    const child = new TiedChild(
      postgresBinaries().initdb,
      [
        `--pgdata=${options.dataDir}`,
        "--username=postgres",
        `--pwfile=${passwordFile}`,
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--no-sync",
        "--no-instructions",
      ],
      { cwd: "/", env: serverEnv(), ...(account ? { user: account } : {}) },
    );
    const { code } = await child.exited;
    if (code !== 0) {
      rmSync(options.dataDir, { recursive: true, force: true });
      throw new Error(`initdb failed in ${options.dataDir}:\n${child.lastLines()}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function launch(options: PostgresServerOptions, port: number, deadline: number): Promise<TiedChild> {
  const account = serverAccount();
  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    logging_collector: "off",
    log_line_prefix: "%m [%p] %q%a ",
    ...options.settings,
  };
  const args = ["-D", options.dataDir, "-p", String(port)];
  for (const [name, value] of Object.entries(settings)) args.push("-c", `${name}=${value}`);
  let announceReady: () => void = () => undefined;
  const ready = new Promise<"ready">((resolve) => (announceReady = () => resolve("ready")));
  const child = new TiedChild(postgresBinaries().postgres, args, {
    cwd: "/",
    env: serverEnv(),
    deathSignal: "SIGINT",
    ...(account ? { user: account } : {}),
    onLine: (line) => {
      if (line.includes("database system is ready to accept connections")) announceReady();
      options.onLine?.(line);
    },
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">(
    (resolve) => (timer = setTimeout(() => resolve("late"), Math.max(1, deadline - performance.now()))),
  );
  const outcome = await Promise.race([ready, late, child.exited.then(() => "ended" as const)]);
  clearTimeout(timer);
  if (outcome === "ready") return child;
  await child.stop([{ signal: "SIGKILL", waitMs: 5_000 }]);
  if (/Address already in use/.test(child.lastLines())) throw new PortBusyError(port);
  throw new Error(`Postgres did not come up on port ${port} (${outcome}):\n${child.lastLines()}`);
}

/** Nothing of this process's environment: PG* variables and locales would change what the server does. */
function serverEnv(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH ?? "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" };
}

/** A password nobody has to type. */
export function generatePassword(): string {
  return randomBytes(24).toString("base64url");
}
