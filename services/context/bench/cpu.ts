/** CPU time of processes, which says what work costs even where other programs share the machine. Linux alone. */
import { readFileSync } from "node:fs";
import pg from "pg";

const tickUs = 10_000;

/** User and system time of a process in microseconds; 0 when it is gone. */
export function processCpuUs(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
    return (Number(fields[11]) + Number(fields[12])) * tickUs;
  } catch {
    return 0;
  }
}

/** CPU time of all backends of a database, those that have ended among them. */
export class DatabaseCpu {
  readonly #client: pg.Client;
  readonly #name: string;
  readonly #seen = new Map<number, number>();
  readonly #timer: NodeJS.Timeout;
  /** One look at a time: a connection takes one statement. */
  #last: Promise<unknown> = Promise.resolve();

  private constructor(client: pg.Client, name: string) {
    this.#client = client;
    this.#name = name;
    this.#timer = setInterval(() => void this.us().catch(() => undefined), 100);
  }

  static async of(adminUrl: string, url: string): Promise<DatabaseCpu> {
    const client = new pg.Client({ connectionString: adminUrl });
    await client.connect();
    return new DatabaseCpu(client, new URL(url).pathname.slice(1));
  }

  us(): Promise<number> {
    const look = this.#last.then(() => this.#look());
    this.#last = look.catch(() => undefined);
    return look;
  }

  async #look(): Promise<number> {
    const { rows } = await this.#client.query<{ pid: number }>("select pid from pg_stat_activity where datname = $1", [this.#name]);
    for (const { pid } of rows) this.#seen.set(pid, Math.max(processCpuUs(pid), this.#seen.get(pid) ?? 0));
    return [...this.#seen.values()].reduce((sum, us) => sum + us, 0);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#last;
    await this.#client.end();
  }
}
