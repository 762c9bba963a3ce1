/** Who was told of which birth, in Postgres. */
import type { Birth, BirthStore } from "../../births/contract.js";
import { int8Array } from "./pg-array.js";
import type { SqlSession, Statement } from "./sql-session.js";

/** Contexts of an import are under a name that nobody has yet. */
export const untoldBirths: Statement = {
  name: "untold_births",
  text: `select context_id, owner, path from context c
where not is_told and context_id > $1 and created_at <= now() - $2 * interval '1 millisecond' and owner !~ '^(imp|rem)_'
  and exists (select from commit k where k.context_id = c.context_id)
order by context_id limit $3`,
};

export const toldBirths: Statement = {
  name: "told_births",
  text: `update context set is_told = true where context_id = any($1::bigint[]) and not is_told`,
};

export class PostgresBirthStore implements BirthStore {
  readonly #session: SqlSession;

  constructor(session: SqlSession) {
    this.#session = session;
  }

  async untold(afterContextId: number, minAgeMs: number, limit: number): Promise<Birth[]> {
    const rows = await this.#session.query<readonly [string, string, string]>(untoldBirths, [afterContextId, minAgeMs, limit]);
    return rows.map(([contextId, owner, path]) => ({ contextId: Number(contextId), address: { owner, path } }));
  }

  async told(contextIds: readonly number[]): Promise<void> {
    await this.#session.query(toldBirths, [int8Array(contextIds)]);
  }
}
