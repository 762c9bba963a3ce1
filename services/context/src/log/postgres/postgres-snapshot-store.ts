/** Snapshots of core states in Postgres. */
import type { CoreSnapshot, SnapshotStore } from "../../past/contract.js";
import type { SqlSession, Statement } from "./sql-session.js";

export const newestSnapshot: Statement = {
  name: "newest_snapshot",
  text: `select as_of, state from core_snapshot
where context_id = $1 and reducer_version = $2 and as_of <= $3 order by as_of desc limit 1`,
};

const keepSnapshot: Statement = {
  name: "keep_snapshot",
  text: `insert into core_snapshot (context_id, reducer_version, as_of, state) values ($1, $2, $3, $4) on conflict do nothing`,
};

export class PostgresSnapshotStore implements SnapshotStore {
  readonly #session: SqlSession;

  constructor(session: SqlSession) {
    this.#session = session;
  }

  async newestSnapshot(contextId: number, reducerVersion: number, through: number): Promise<CoreSnapshot | null> {
    const [row] = await this.#session.query<readonly [string, string]>(newestSnapshot, [contextId, reducerVersion, through]);
    return row === undefined ? null : { asOf: Number(row[0]), state: row[1] };
  }

  async keepSnapshot(contextId: number, reducerVersion: number, { asOf, state }: CoreSnapshot): Promise<void> {
    await this.#session.query(keepSnapshot, [contextId, reducerVersion, asOf, state]);
  }
}
