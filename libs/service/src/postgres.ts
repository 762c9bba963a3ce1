/**
 * The way to Postgres: a bounded pool that never hangs. Waiting for a connection, opening one and every statement have a bound
 * here, on the client's side, because a network that swallows packets never reports an error. A connection that is in doubt is
 * destroyed, never returned; one whose statement was merely refused (a unique violation) is kept.
 *
 * Errors: what Postgres refused for the statement's own sake comes out as `pg.DatabaseError` (`sqlState(error)`); everything that
 * may pass by itself (the server away, shutting down, too slow, out of connections) is a CodedError UNAVAILABLE, and a full
 * queue OVERLOADED. After UNAVAILABLE the statement may or may not have been applied.
 */
import type { Socket } from "node:net";
import { CodedError, codedError } from "iterate/lib";
import pg from "pg";
import { CopyOut, type CopyListener } from "./copy-out.js";
import { retryableSqlState, sqlState } from "./sqlstate.js";

export type { CopyListener } from "./copy-out.js";
export { retryableSqlState, sqlState } from "./sqlstate.js";

export interface PoolOptions {
  url: string;
  /** Seen by operators in pg_stat_activity. */
  applicationName: string;
  /** Connections at most. */
  max: number;
  /** Bound of one statement on the server, milliseconds: 5,000 unless told. The client gives up 2 s after it. */
  statementTimeoutMs?: number;
  /** How long a transaction may idle before the server ends it, milliseconds: 10,000 unless told. */
  idleInTransactionTimeoutMs?: number;
  /** Bound of waiting for a connection and of opening one, milliseconds: 5,000 unless told. */
  acquireTimeoutMs?: number;
  /** Callers that may wait for a connection at once; one more is OVERLOADED. 1,024 unless told. */
  maxWaiting?: number;
  /** `force_generic_plan` for pools whose named statements must not be planned again. */
  planCacheMode?: "auto" | "force_generic_plan" | "force_custom_plan";
  /**
   * What stands between: nothing that changes sessions, or a pooler that gives a server connection per transaction. Behind one,
   * statements lose their names and session settings are left to the role (bootstrap.ts sets them there).
   */
  pooler?: "none" | "transaction";
}

export interface Statement {
  text: string;
  values?: readonly unknown[];
  /** Makes it a prepared statement of the connection, by this name. */
  name?: string;
  rowMode?: "array";
  /** Asks for binary results. */
  binary?: boolean;
}

/** Rows as `pg` decodes them: int8 as text, bytea as Buffer, timestamps as Date. */
export type QueryResult<Row> = Pick<pg.QueryResult, "rowCount" | "command" | "fields"> & { rows: Row[] };

export interface Queryable {
  /**
   * Sends one statement.
   *
   * @throws pg.DatabaseError when Postgres refused it; CodedError UNAVAILABLE or OVERLOADED (see the top of this file).
   */
  query<Row = Record<string, unknown>>(statement: string | Statement, values?: readonly unknown[]): Promise<QueryResult<Row>>;
}

/** Runs `copy (…) to stdout`, which takes no values: `text` must hold none that came from outside. */
export interface CopySource {
  /**
   * Hands each row to `onRow` as it comes. What `onRow` throws is thrown once the rest has come, unseen.
   *
   * @throws as `query`.
   */
  copyOut(text: string, onRow: CopyListener): Promise<void>;
}

/** A connection lent to one caller, which must `release` it. */
export interface PoolConnection extends Queryable, CopySource {
  /** Gives it back; it is destroyed instead when anything about it is in doubt. */
  release(): void;
  /** Ends it now. */
  destroy(): void;
}

/** Beyond the server's own bound: a healthy server's answer to its own timeout still arrives. */
const clientGraceMs = 2_000;
const keepAliveDelayMs = 10_000;
const idleTimeoutMs = 30_000;
/** Connections move to a new primary, or to a healthier pooler, within this. */
const maxLifetimeSeconds = 1_800;
const retryAfterMs = 500;

export function createPool(options: PoolOptions): Pool {
  return new Pool(options);
}

export class Pool implements Queryable, CopySource {
  readonly #pool: pg.Pool;
  readonly #open = new Set<pg.PoolClient>();
  /** The grace of `end` has passed. */
  #isOver = false;
  readonly #keepsNames: boolean;
  readonly #maxWaiting: number;
  readonly #queryTimeoutMs: number;
  #ended: Promise<void> | undefined;

  constructor(options: PoolOptions) {
    const statementTimeoutMs = options.statementTimeoutMs ?? 5_000;
    const isDirect = (options.pooler ?? "none") === "none";
    this.#keepsNames = isDirect;
    this.#maxWaiting = options.maxWaiting ?? 1_024;
    this.#queryTimeoutMs = statementTimeoutMs + clientGraceMs;
    this.#pool = new pg.Pool({
      connectionString: options.url,
      application_name: options.applicationName,
      max: options.max,
      connectionTimeoutMillis: options.acquireTimeoutMs ?? 5_000,
      idleTimeoutMillis: idleTimeoutMs,
      maxLifetimeSeconds,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveDelayMs,
      allowExitOnIdle: true,
      ...(isDirect ? { options: sessionSettings(options, statementTimeoutMs) } : {}),
    });
    // A connection that dies while idle leaves the pool; the next caller gets another one.
    this.#pool.on("error", () => undefined);
    this.#pool.on("connect", (client) => {
      this.#open.add(client);
      // It was still being opened when the others were cut.
      if (this.#isOver) cut(client);
    });
    this.#pool.on("remove", (client) => this.#open.delete(client));
  }

  /** Connections open, idle among them, and callers waiting for one. */
  get counts(): { open: number; idle: number; waiting: number } {
    return { open: this.#pool.totalCount, idle: this.#pool.idleCount, waiting: this.#pool.waitingCount };
  }

  async query<Row = Record<string, unknown>>(
    statement: string | Statement,
    values?: readonly unknown[],
  ): Promise<QueryResult<Row>> {
    const connection = await this.connect();
    try {
      return await connection.query<Row>(statement, values);
    } finally {
      connection.release();
    }
  }

  async copyOut(text: string, onRow: CopyListener): Promise<void> {
    const connection = await this.connect();
    try {
      await connection.copyOut(text, onRow);
    } finally {
      connection.release();
    }
  }

  /**
   * Runs `work` in one transaction: committed when it resolves, rolled back when it rejects. It is not run again.
   *
   * @throws what `work` throws; INTERNAL when `work` swallowed the failure of a statement, so that nothing was committed.
   */
  async transaction<T>(work: (transaction: Queryable) => Promise<T>): Promise<T> {
    const connection = await this.connect();
    try {
      await connection.query("begin");
      let result: T;
      try {
        result = await work(connection);
      } catch (error) {
        await connection.query("rollback").catch(() => connection.destroy());
        throw error;
      }
      const { command } = await connection.query("commit");
      if (command !== "COMMIT")
        throw codedError("INTERNAL", "a transaction went on after one of its statements failed: nothing was committed");
      return result;
    } finally {
      connection.release();
    }
  }

  /** @throws CodedError UNAVAILABLE when there is none within the bound; OVERLOADED when too many wait already. */
  async connect(): Promise<PoolConnection> {
    if (this.#ended !== undefined) throw unavailable("the pool is closed", undefined);
    if (this.#pool.waitingCount >= this.#maxWaiting) {
      throw new CodedError("OVERLOADED", `${this.#maxWaiting} callers already wait for a database connection`, { retryAfterMs });
    }
    let client: pg.PoolClient;
    try {
      client = await this.#pool.connect();
    } catch (error) {
      if (sqlState(error) !== undefined && !retryableSqlState(error)) throw error;
      throw unavailable("no database connection could be had", error);
    }
    return new LentConnection(client, this.#keepsNames, this.#queryTimeoutMs);
  }

  /** Lets running statements finish for at most `graceMs`, then cuts them. Idempotent. */
  end(graceMs = 5_000): Promise<void> {
    this.#ended ??= this.#end(graceMs);
    return this.#ended;
  }

  async #end(graceMs: number): Promise<void> {
    const timer = setTimeout(() => {
      this.#isOver = true;
      this.#open.forEach(cut);
    }, graceMs);
    try {
      await this.#pool.end();
    } finally {
      clearTimeout(timer);
    }
  }
}

class LentConnection implements PoolConnection {
  readonly #client: pg.PoolClient;
  readonly #keepsNames: boolean;
  readonly #queryTimeoutMs: number;
  readonly #onError = (): void => void (this.#isInDoubt = true);
  #isInDoubt = false;
  #isReleased = false;

  constructor(client: pg.PoolClient, keepsNames: boolean, queryTimeoutMs: number) {
    this.#client = client;
    this.#keepsNames = keepsNames;
    this.#queryTimeoutMs = queryTimeoutMs;
    client.on("error", this.#onError);
    client.on("end", this.#onError);
  }

  query<Row = Record<string, unknown>>(statement: string | Statement, values?: readonly unknown[]): Promise<QueryResult<Row>> {
    return this.#bounded(() => this.#client.query<Row & pg.QueryResultRow>(this.#config(statement, values)));
  }

  copyOut(text: string, onRow: CopyListener): Promise<void> {
    return this.#bounded(() => new CopyOut(text, onRow).sendOn(this.#client));
  }

  async #bounded<Answer>(send: () => Promise<Answer>): Promise<Answer> {
    if (this.#isReleased) throw codedError("INTERNAL", "a database connection was used after its release");
    if (this.#isInDoubt) throw unavailable("the database connection is lost", undefined);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.#isInDoubt = true;
      cut(this.#client);
    }, this.#queryTimeoutMs);
    try {
      return await send();
    } catch (error) {
      const state = sqlState(error);
      if (state === undefined) {
        if (isLate) throw unavailable(`the database did not answer within ${this.#queryTimeoutMs} ms`, error);
        if (this.#isInDoubt || isCut(this.#client)) {
          this.#isInDoubt = true;
          throw unavailable("the database connection was lost before the answer", error);
        }
        // Neither Postgres nor the network: the statement's values could not be encoded.
        throw error;
      }
      if (isFatal(error)) this.#isInDoubt = true;
      if (retryableSqlState(error)) throw unavailable(`the database refused for now (${state})`, error);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#client.removeListener("error", this.#onError);
    this.#client.removeListener("end", this.#onError);
    const isBroken = this.#isInDoubt || isCut(this.#client);
    if (isBroken) cut(this.#client);
    this.#client.release(isBroken);
  }

  destroy(): void {
    this.#isInDoubt = true;
    this.release();
  }

  #config(statement: string | Statement, values: readonly unknown[] | undefined): pg.QueryConfig {
    const { values: own, name, ...rest }: Statement = typeof statement === "string" ? { text: statement } : statement;
    const sent = values ?? own;
    return {
      ...rest,
      ...(sent === undefined ? {} : { values: sent as unknown[] }),
      ...(name === undefined || !this.#keepsNames ? {} : { name }),
    };
  }
}

function sessionSettings(options: PoolOptions, statementTimeoutMs: number): string {
  const settings = [
    `statement_timeout=${statementTimeoutMs}`,
    `idle_in_transaction_session_timeout=${options.idleInTransactionTimeoutMs ?? 10_000}`,
  ];
  if (options.planCacheMode !== undefined) settings.push(`plan_cache_mode=${options.planCacheMode}`);
  return settings.map((setting) => `-c ${setting}`).join(" ");
}

function unavailable(message: string, cause: unknown): CodedError {
  const state = sqlState(cause);
  return new CodedError("UNAVAILABLE", message, {
    retryAfterMs,
    cause,
    ...(state === undefined ? {} : { data: { sqlState: state } }),
  });
}

/** FATAL and PANIC end the session whatever the code says. */
function isFatal(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.severity !== "ERROR";
}

/** `pg` says goodbye politely and waits for the answer; a connection in doubt is closed without a word. */
function cut(client: pg.PoolClient): void {
  streamOf(client).destroy();
}

function isCut(client: pg.PoolClient): boolean {
  const stream = streamOf(client);
  return stream.destroyed || stream.readableEnded;
}

function streamOf(client: pg.PoolClient): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}
