/** What a statement costs: how many rows its plan, made without looking at the values as the service's pools do, reads from tables. */
import type { Pool } from "@iterate-platform/service/postgres";
import type { Statement } from "./sql-session.js";

interface PlanNode {
  readonly [name: string]: unknown;
}

export interface RowsRead {
  /** Rows read from each relation, whether or not they were kept. */
  readonly byRelation: ReadonlyMap<string, number>;
  readonly total: number;
}

/** `literals` are the values as SQL spells them. */
export async function rowsReadBy(pool: Pool, { name, text }: Statement, literals: readonly string[]): Promise<RowsRead> {
  const connection = await pool.connect();
  try {
    await connection.query("set plan_cache_mode = force_generic_plan");
    await connection.query(`prepare ${name}_explained as ${text}`);
    const { rows } = await connection.query<{ "QUERY PLAN": PlanNode[] }>(
      `explain (analyze, format json) execute ${name}_explained(${literals.join(", ")})`,
    );
    const byRelation = new Map<string, number>();
    collect(rows[0]!["QUERY PLAN"][0]!["Plan"] as PlanNode, byRelation);
    return { byRelation, total: [...byRelation.values()].reduce((sum, count) => sum + count, 0) };
  } finally {
    connection.destroy();
  }
}

function collect(node: PlanNode, into: Map<string, number>): void {
  const relation = node["Relation Name"] as string | undefined;
  if (relation !== undefined) {
    const read =
      ((node["Actual Rows"] as number) + ((node["Rows Removed by Filter"] as number | undefined) ?? 0)) *
      (node["Actual Loops"] as number);
    into.set(relation, (into.get(relation) ?? 0) + read);
  }
  for (const child of (node["Plans"] as PlanNode[] | undefined) ?? []) collect(child, into);
}
