/** A pgbouncer that gives each transaction whatever server connection is free, as operators put one between pods and the database. */
import { chownSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, findProgram, freePort } from "@iterate-platform/testing";
import { serverAccount, temporaryFolder } from "@iterate-platform/testing/account";
import { TiedChild } from "@iterate-platform/testing/child";
import { isPortTaken } from "@iterate-platform/testing/free-port";

export interface PoolerOptions {
  /** A role's URL of the database, past the pooler. */
  readonly databaseUrl: string;
  /** Connections to the server, for all clients together. */
  readonly serverConnections: number;
}

export class Pooler {
  readonly #child: TiedChild;
  readonly #folder: string;
  /** The same database and role, through the pooler. */
  readonly url: string;

  private constructor(child: TiedChild, folder: string, url: string) {
    this.#child = child;
    this.#folder = folder;
    this.url = url;
  }

  static async start({ databaseUrl, serverConnections }: PoolerOptions): Promise<Pooler> {
    const url = new URL(databaseUrl);
    const port = await freePort();
    const account = serverAccount();
    const folder = temporaryFolder("iterate-test-pooler-", account);
    mkdirSync(folder, { recursive: true });
    const files = {
      "users.txt": `"${decodeURIComponent(url.username)}" "${decodeURIComponent(url.password)}"\n`,
      "pgbouncer.ini": [
        "[databases]",
        `* = host=${url.hostname} port=${url.port}`,
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        `listen_port = ${port}`,
        "unix_socket_dir =",
        "auth_type = scram-sha-256",
        `auth_file = ${join(folder, "users.txt")}`,
        "pool_mode = transaction",
        `default_pool_size = ${serverConnections}`,
        "max_client_conn = 200",
      ].join("\n"),
    };
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(folder, name), text, { mode: 0o600 });
      if (account) chownSync(join(folder, name), account.uid, account.gid);
    }
    const child = new TiedChild(findProgram("pgbouncer")!, [join(folder, "pgbouncer.ini")], {
      cwd: "/",
      ...(account ? { user: account } : {}),
    });
    await eventually(
      async () => {
        if (!child.isRunning) throw new Error(`pgbouncer ended:\n${child.lastLines()}`);
        return isPortTaken(port);
      },
      { timeoutMs: 10_000 },
    );
    url.hostname = "127.0.0.1";
    url.port = String(port);
    return new Pooler(child, folder, url.href);
  }

  /** What it logged last. */
  lastLines(): string {
    return this.#child.lastLines();
  }

  async stop(): Promise<void> {
    await this.#child.stop([
      { signal: "SIGINT", waitMs: 3_000 },
      { signal: "SIGKILL", waitMs: 2_000 },
    ]);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
