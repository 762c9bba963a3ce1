/** Sessions of the log over the pools of the service library. Counts statements, which is what an append is paid in. */
import type { CopyListener, Pool, PoolConnection } from "@iterate-platform/service/postgres";

/** One statement with a fixed text; a connection keeps it prepared under its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** Whatever runs a statement: one connection, or a pool. Rows come as arrays of column values, integers of 8 bytes as text. */
export interface SqlSession {
  /** @throws CodedError UNAVAILABLE (retryable) when the database is away, or the driver's error. */
  query<Row extends readonly unknown[]>(statement: Statement, values: readonly unknown[]): Promise<Row[]>;
}

/** Statements sent by this process, by name. */
export const statementCounts = new Map<string, number>();

/** Statements on whichever connection of the pool is free. */
export class PooledSession implements SqlSession {
  readonly #pool: Pool;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async query<Row extends readonly unknown[]>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    count(statement);
    return (await this.#pool.query<Row>({ name: statement.name, text: statement.text, rowMode: "array" }, values)).rows;
  }

  /** As `Pool.copyOut`. The name is for counting. */
  copyOut(statement: Statement, onRow: CopyListener): Promise<void> {
    count(statement);
    return this.#pool.copyOut(statement.text, onRow);
  }
}

/** A session that keeps one connection, so that its statements follow each other. Opened at first use; opened again after a loss. */
export class LaneSession implements SqlSession {
  readonly #pool: Pool;
  #connection: PoolConnection | null = null;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  async query<Row extends readonly unknown[]>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    this.#connection ??= await this.#pool.connect();
    count(statement);
    return (await this.#connection.query<Row>({ name: statement.name, text: statement.text, rowMode: "array" }, values)).rows;
  }

  /** As `LogLane.transaction`. */
  async transaction(work: () => Promise<boolean>): Promise<void> {
    try {
      await this.query(begin, []);
      await this.query((await work()) ? commit : rollback, []);
    } catch (error) {
      this.drop();
      throw error;
    }
  }

  /** Gives the connection up: the next statement opens another. */
  drop(): void {
    this.#connection?.destroy();
    this.#connection = null;
  }

  close(): void {
    this.#connection?.release();
    this.#connection = null;
  }
}

const begin: Statement = { name: "transaction_begin", text: "begin" };
const commit: Statement = { name: "transaction_commit", text: "commit" };
const rollback: Statement = { name: "transaction_rollback", text: "rollback" };

function count({ name }: Statement): void {
  statementCounts.set(name, (statementCounts.get(name) ?? 0) + 1);
}
