/**
 * Tells the log how far the subscriptions of contexts that give up their past have got. What is told is read from the rows, so it holds
 * whatever becomes of this process: a cursor that was stored never goes back without its row becoming another one. What was told and
 * has not changed is not told again by this process; a new owner tells everything once more.
 */
import type { Queryable } from "@iterate-platform/service/postgres";
import type { ContextLog, SubscriptionFloor } from "../log/contract.js";
import { reportingRows, type FloorColumns } from "./floors.sql.js";

/** Rows of one statement, and floors of one report. */
const page = 1_000;

export class FloorReporter {
  readonly #db: Queryable;
  readonly #log: ContextLog;
  /** What was told, by row. */
  #told: ReadonlyMap<string, string> = new Map();

  constructor(db: Queryable, log: ContextLog) {
    this.#db = db;
    this.#log = log;
  }

  /** Tells what changed in these partitions. */
  async report(partitions: readonly number[]): Promise<void> {
    const told = new Map<string, string>();
    for (let after: number | null = 0; after !== null;) {
      const { rows }: { rows: FloorColumns[] } = await this.#db.query<FloorColumns>(reportingRows(partitions, after, page));
      const changed = Map.groupBy(
        rows.filter((row) => this.#told.get(row.id) !== placeOf(row)),
        ({ partition }) => partition,
      );
      for (const [partition, moved] of changed) await this.#log.reportFloors(partition, moved.map(floorOf));
      for (const row of rows) told.set(row.id, placeOf(row));
      after = rows.length < page ? null : Number(rows.at(-1)!.id);
    }
    this.#told = told;
  }
}

function placeOf({ configured_at, resumed_at, cursor }: FloorColumns): string {
  return `${configured_at} ${resumed_at} ${cursor}`;
}

function floorOf({ owner, path, name, configured_at, resumed_at, cursor }: FloorColumns): SubscriptionFloor {
  return {
    owner,
    path,
    name,
    configuredAt: Number(configured_at),
    resumedAt: Number(resumed_at),
    floor: Number(cursor),
  };
}
