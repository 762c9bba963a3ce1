/** Children of contexts by the index of owners and paths. */
import type { ChildPage, ChildStore } from "../../births/contract.js";
import type { ContextAddress } from "../contract.js";
import type { SqlSession, Statement } from "./sql-session.js";

/**
 * `[path, is_direct, created_at_us]`, one row for each step of a walk from path to path: owner $1, prefix of the children $2, from $3 on,
 * at most $4 steps. From a child it goes to the next path, from what lies below one beyond all that lies there: `0` comes after `/`.
 */
export const childrenOf: Statement = {
  name: "children",
  text: `with recursive walk as (
  (select path, 1 as step from context where owner = $1 and path >= $3 and path < rtrim($2, '/') || '0' order by path limit 1)
  union all
  select n.path, w.step + 1 from walk w cross join lateral (
    select path from context
    where owner = $1 and path < rtrim($2, '/') || '0' and path >= case
      when strpos(substr(w.path, length($2) + 1), '/') = 0 then w.path || chr(1)
      else $2 || split_part(substr(w.path, length($2) + 1), '/', 1) || '0' end
    order by path limit 1
  ) n where w.step < $4
)
select w.path, strpos(substr(w.path, length($2) + 1), '/') = 0 and exists (select from commit k where k.context_id = c.context_id),
  (extract(epoch from c.created_at) * 1000000)::bigint
from walk w join context c on c.owner = $1 and c.path = w.path order by w.path`,
};

export class PostgresChildStore implements ChildStore {
  readonly #session: SqlSession;

  constructor(session: SqlSession) {
    this.#session = session;
  }

  async childrenOf({ owner, path }: ContextAddress, after: string, limit: number): Promise<ChildPage> {
    const prefix = path === "/" ? "/" : `${path}/`;
    const from = after === "" ? `${prefix}\u0001` : `${after}\u0001`;
    const rows = await this.#session.query<readonly [string, boolean, string]>(childrenOf, [owner, prefix, from, limit]);
    return {
      children: rows.flatMap(([path, isChild, createdAtUs]) => (isChild ? { path, createdAtUs: Number(createdAtUs) } : [])),
      lookedThrough: rows.length < limit ? null : rows.at(-1)![0],
    };
  }
}
