/** The statements on rows that report their floors. */
import type { Statement } from "@iterate-platform/service/postgres";
import type { ContextKey } from "../delivery/contract.js";

/** Whether the rows of a context report. Needs no version: whoever finds it otherwise says so again. */
export function setReportsFloor({ owner, path }: ContextKey, reports: boolean, epoch: bigint): Statement {
  return {
    name: "set_reports_floor",
    text: `update delivery set reports_floor = $3 where owner = $1 and path = $2 and reports_floor <> $3 and epoch <= $4`,
    values: [owner, path, reports, String(epoch)],
  };
}

export interface FloorColumns {
  readonly id: string;
  readonly partition: number;
  readonly owner: string;
  readonly path: string;
  readonly name: string;
  readonly configured_at: string;
  readonly resumed_at: string;
  readonly cursor: string;
}

/** Reporting rows of these partitions, in pages by row id. */
export function reportingRows(partitions: readonly number[], afterId: number, limit: number): Statement {
  return {
    name: "reporting_rows",
    text: `
      select id, partition, owner, path, name, configured_at, resumed_at, cursor from delivery
      where reports_floor and id > $2 and partition = any($1::smallint[]) and status <> 'removed' order by id limit $3`,
    values: [partitions, afterId, limit],
  };
}
