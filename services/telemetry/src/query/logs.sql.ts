/** Log records of one owner in order, by the primary key. */
import type { Queryable } from "@iterate-platform/service/postgres";
import type { LogPosition } from "./log-position.js";

export interface StoredLog {
  readonly atUs: string;
  readonly export: string;
  readonly ordinal: number;
  readonly severity: number;
  readonly body: string;
  readonly service: string;
  readonly traceId: string | null;
  readonly spanId: string | null;
  readonly attributes: string;
}

export interface LogScan {
  /** The records that match, in order. */
  readonly records: readonly StoredLog[];
  /** The last record looked at; null when there was none. */
  readonly through: LogPosition | null;
  readonly scanned: number;
}

/** `path` is itself and what is below it; empty matches everything. At most `maxScanned` records are looked at, `limit` answered. */
export async function scanLogs(
  db: Queryable,
  owner: string,
  after: LogPosition,
  beforeUs: bigint,
  path: string,
  limit: number,
  maxScanned: number,
): Promise<LogScan> {
  const { rows } = await db.query<
    StoredLog & { throughAtUs: string; throughExport: string; throughOrdinal: number; scanned: number; isMatch: boolean }
  >(
    `with scanned as (
       select * from log_record
        where owner = $1 and at_us >= $2 and at_us < $5 and (at_us, export, ordinal) > ($2, $3, $4)
        order by at_us, export, ordinal limit $8),
     through as (
       select at_us, export, ordinal, (select count(*)::int from scanned) as scanned
         from scanned order by at_us desc, export desc, ordinal desc limit 1),
     matched as (
       select * from scanned where $6 = '' or path = $6 or starts_with(path, rtrim($6, '/') || '/')
        order by at_us, export, ordinal limit $7)
     select m.at_us as "atUs", m.export, m.ordinal, m.severity, m.body, m.service, m.trace_id as "traceId", m.span_id as "spanId",
            m.attributes, m.owner is not null as "isMatch",
            t.at_us as "throughAtUs", t.export as "throughExport", t.ordinal as "throughOrdinal", t.scanned
       from through t left join matched m on true
      order by m.at_us, m.export, m.ordinal`,
    [owner, after.atUs, after.export, after.ordinal, beforeUs, path, limit, maxScanned],
  );
  const [first] = rows;
  return {
    records: rows.filter(({ isMatch }) => isMatch),
    scanned: first?.scanned ?? 0,
    through:
      first === undefined
        ? null
        : { atUs: BigInt(first.throughAtUs), export: BigInt(first.throughExport), ordinal: first.throughOrdinal },
  };
}
