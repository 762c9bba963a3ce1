/** Partitions of the three tables. Table and day are the service's own words, never a sender's. */
import type { Queryable } from "@iterate-platform/service/postgres";
import { dayName, dayNamed, dayStartUs } from "./day.js";

export const partitionedTables = ["span", "span_link", "log_record"] as const;
export type PartitionedTable = (typeof partitionedTables)[number];

export interface Partition {
  readonly table: PartitionedTable;
  readonly day: number;
}

export function partitionName({ table, day }: Partition): string {
  return `${table}_${dayName(day)}`;
}

/** All partitions there are, oldest day first. */
export async function listPartitions(db: Queryable): Promise<Partition[]> {
  const { rows } = await db.query<{ name: string; table: PartitionedTable }>(
    `select child.relname as name, parent.relname as "table"
       from pg_inherits join pg_class child on child.oid = inhrelid join pg_class parent on parent.oid = inhparent
      where parent.relname = any($1) and parent.relkind = 'p' and parent.relnamespace = current_schema()::regnamespace`,
    [partitionedTables],
  );
  return rows
    .flatMap(({ name, table }) => {
      const day = dayNamed(name.slice(table.length + 1));
      return day === null ? [] : [{ table, day }];
    })
    .sort((one, other) => one.day - other.day);
}

/** Held to the end of the transaction, so that several processes make and drop in turn. */
export async function lockPartitions(db: Queryable): Promise<void> {
  // A statement that cannot have its table's lock must not hold up the inserts that queue behind it.
  await db.query("set local lock_timeout = '2s'");
  await db.query("select pg_advisory_xact_lock(hashtextextended('iterate.telemetry.partitions', 0))");
}

export async function createPartition(db: Queryable, partition: Partition): Promise<void> {
  const { table, day } = partition;
  await db.query(
    `create table if not exists ${partitionName(partition)} partition of ${table}
       for values from (${dayStartUs(day)}) to (${dayStartUs(day + 1)})`,
  );
}

export async function dropPartition(db: Queryable, partition: Partition): Promise<void> {
  await db.query(`drop table if exists ${partitionName(partition)}`);
}
