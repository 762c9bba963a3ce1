/**
 * Forward-only migrations: numbered SQL files, each applied once, whoever and however many start them together.
 *
 * `0001_name.sql` runs in one transaction that first takes the schema's advisory lock. `0002_name.concurrent.sql` holds
 * `create index concurrently` statements alone, which no transaction may contain: the lock is held by a second connection
 * meanwhile, an index that an interrupted run left invalid is dropped first, and the whole file may run again. The lock is polled,
 * never waited for: a waiting statement holds a snapshot that a concurrent index build would wait for in turn.
 *
 * Needs a direct connection, not a transaction pooler. What is in the table but not in the folder belongs to a newer version and is
 * left alone; a file older than an applied one, or changed after it was applied, is refused.
 */
import { setTimeout as pause } from "node:timers/promises";
import { CodedError, codedError, isCodedError } from "iterate/lib";
import pg from "pg";
import { readMigrations, type Migration } from "./migration-files.js";
import { retryableSqlState, sqlState } from "./sqlstate.js";

export interface MigrateOptions {
  /** A direct URL of the service's role; tables go to the role's first schema. */
  url: string;
  /** The folder of the numbered files. */
  dir: string;
  log?: { info(message: string, fields?: Record<string, unknown>): void };
  /** How long to wait for another process that migrates, milliseconds: 5 minutes unless told. */
  lockTimeoutMs?: number;
  /** Bound of one migration, milliseconds: 10 minutes unless told. */
  statementTimeoutMs?: number;
}

const lockPollMs = 100;
/** A migration waits for a table's lock at most this long, so that it never queues the whole service behind it; then again. */
const tableLockTimeoutMs = 2_000;
const tableLockTries = 10;

/**
 * Brings the schema to the newest file of `dir`.
 *
 * @returns the names of the files applied by this call, in order; empty when there was nothing to do.
 * @throws CodedError UNAVAILABLE when the database is away, or busy migrating or holding a table's lock beyond the bounds (try
 *   again); INTERNAL when a file was changed after it was applied or comes too late; pg.DatabaseError when a statement is refused.
 */
export async function migrate(options: MigrateOptions): Promise<string[]> {
  const migrations = await readMigrations(options.dir);
  const session = await Session.open(options);
  try {
    const applied: string[] = [];
    for (const migration of migrations) {
      if (await session.apply(migration)) {
        applied.push(migration.name);
        options.log?.info("migration applied", { migration: migration.name });
      }
    }
    if (applied.length > 0) await session.analyze();
    return applied;
  } finally {
    await session.close();
  }
}

interface AppliedRow {
  number: number;
  name: string;
  checksum: string;
}

class Session {
  readonly #options: MigrateOptions;
  readonly #client: pg.Client;

  private constructor(options: MigrateOptions, client: pg.Client) {
    this.#options = options;
    this.#client = client;
  }

  static async open(options: MigrateOptions): Promise<Session> {
    return new Session(options, await connect(options, tableLockTimeoutMs));
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }

  /** Applies one migration unless it is applied already. Answers whether this call did it. */
  async apply(migration: Migration): Promise<boolean> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#underLock((applied) => this.#applyOnce(migration, applied));
      } catch (error) {
        const isLockedOut = ["55P03", "40P01"].includes(sqlState(error) ?? "");
        if (isLockedOut && attempt < tableLockTries) {
          await pause(lockPollMs * attempt);
          continue;
        }
        const isConnectionLost = sqlState(error) === undefined && !isCodedError(error);
        if (isConnectionLost || retryableSqlState(error)) {
          throw new CodedError("UNAVAILABLE", `migration ${migration.name} could not run for now`, { cause: error });
        }
        throw error;
      }
    }
  }

  /** Lets the planner know the tables as they are now. */
  async analyze(): Promise<void> {
    const { rows } = await this.#client.query<{ name: string }>(
      `select c.oid::regclass::text as name from pg_class c
        where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition`,
    );
    for (const { name } of rows) await this.#client.query(`analyze ${name}`);
  }

  async #applyOnce(migration: Migration, applied: readonly AppliedRow[]): Promise<boolean> {
    const own = applied.find((row) => row.number === migration.number);
    if (own !== undefined) {
      if (own.checksum === migration.checksum) return false;
      throw codedError(
        "INTERNAL",
        `migration ${migration.name} was changed after it was applied as ${own.name}: restore it and add a new one`,
      );
    }
    const newest = Math.max(0, ...applied.map((row) => row.number));
    if (newest > migration.number) {
      throw codedError("INTERNAL", `migration ${migration.name} comes too late: number ${newest} is applied already`);
    }
    if (migration.kind === "transaction") await this.#client.query(migration.sql);
    else await this.#buildIndexes(migration);
    await this.#client.query("insert into schema_migration (number, name, checksum) values ($1, $2, $3)", [
      migration.number,
      migration.name,
      migration.checksum,
    ]);
    return true;
  }

  /** Runs the file's statements on a connection of their own while this one, idle in its transaction, holds the lock. */
  async #buildIndexes(migration: Extract<Migration, { kind: "concurrent" }>): Promise<void> {
    // It blocks no reader or writer, so it may wait for old transactions to end.
    const builder = await connect(this.#options, 0);
    try {
      for (const { index, sql } of migration.statements) {
        const { rows } = await builder.query<{ isValid: boolean }>(
          `select i.indisvalid as "isValid" from pg_index i join pg_class c on c.oid = i.indexrelid
            where c.relname = $1 and c.relnamespace = current_schema()::regnamespace`,
          [index],
        );
        if (rows[0]?.isValid === false) await builder.query(`drop index concurrently ${pg.escapeIdentifier(index)}`);
        await builder.query(sql);
      }
    } finally {
      await builder.end().catch(() => undefined);
    }
  }

  async #underLock<T>(work: (applied: readonly AppliedRow[]) => Promise<T>): Promise<T> {
    const deadline = performance.now() + (this.#options.lockTimeoutMs ?? 300_000);
    for (;;) {
      await this.#client.query("begin");
      try {
        if (await this.#tryLock()) {
          const result = await work(await this.#applied());
          await this.#client.query("commit");
          return result;
        }
        await this.#client.query("rollback");
      } catch (error) {
        await this.#client.query("rollback").catch(() => undefined);
        throw error;
      }
      if (performance.now() >= deadline)
        throw codedError("UNAVAILABLE", "another process has been migrating this schema for too long");
      await pause(lockPollMs);
    }
  }

  async #tryLock(): Promise<boolean> {
    const { rows } = await this.#client.query<{ schema: string | null; isHeld: boolean }>(
      `select current_schema() as schema,
              pg_try_advisory_xact_lock(hashtextextended('iterate.migrations.' || current_schema(), 0)) as "isHeld"`,
    );
    if (rows[0]?.schema === null) throw codedError("INTERNAL", "the role has no schema to migrate: run the bootstrap first");
    return rows[0]?.isHeld === true;
  }

  async #applied(): Promise<AppliedRow[]> {
    await this.#client.query(
      `create table if not exists schema_migration (
         number int primary key, name text not null, checksum text not null, at timestamptz not null default now())`,
    );
    return (await this.#client.query<AppliedRow>("select number, name, checksum from schema_migration")).rows;
  }
}

async function connect(options: MigrateOptions, lockTimeoutMs: number): Promise<pg.Client> {
  const statementTimeoutMs = options.statementTimeoutMs ?? 600_000;
  const settings = {
    statement_timeout: statementTimeoutMs,
    idle_in_transaction_session_timeout: statementTimeoutMs,
    lock_timeout: lockTimeoutMs,
    client_min_messages: "warning",
  };
  const client = new pg.Client({
    connectionString: options.url,
    application_name: "iterate-migrate",
    connectionTimeoutMillis: 10_000,
    query_timeout: statementTimeoutMs + 5_000,
    keepAlive: true,
    options: Object.entries(settings)
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(" "),
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
  } catch (error) {
    if (sqlState(error) !== undefined && !retryableSqlState(error)) throw error;
    throw new CodedError("UNAVAILABLE", "the database to migrate cannot be reached", { cause: error });
  }
  return client;
}
