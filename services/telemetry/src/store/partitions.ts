/**
 * The days that exist: made ahead of time, dropped when they are older than is kept. Several processes may do so at once. Dropping a
 * day costs nothing however many rows it holds.
 */
import type { Pool } from "@iterate-platform/service/postgres";
import { dayOf, dayStartMs } from "./day.js";
import {
  createPartition,
  dropPartition,
  listPartitions,
  lockPartitions,
  partitionedTables,
  partitionName,
} from "./partitions.sql.js";

export interface PartitionsOptions {
  readonly pool: Pool;
  /** Whole days kept besides today; at least 2, so that what waits for the database still finds its day. */
  readonly retentionDays: number;
  readonly nowMs: () => number;
}

/** Days back that a late span may begin in, and days ahead that are made before they begin. */
const daysBack = 2;
const daysAhead = 2;

export class Partitions {
  readonly #options: PartitionsOptions;
  #madeFor: number | null = null;
  #oldestDay: number | null = null;

  constructor(options: PartitionsOptions) {
    this.#options = options;
  }

  /** Age of the oldest day kept, from its first moment, ms; null before it is known. */
  get oldestAgeMs(): number | null {
    return this.#oldestDay === null ? null : this.#options.nowMs() - dayStartMs(this.#oldestDay);
  }

  /** Makes the days around today; asks the database once a day. Throws what the database does. */
  async ensure(): Promise<void> {
    const today = dayOf(this.#options.nowMs());
    if (this.#madeFor === today) return;
    await this.#options.pool.transaction(async (db) => {
      await lockPartitions(db);
      const there = new Set((await listPartitions(db)).map(partitionName));
      for (let day = today - daysBack; day <= today + daysAhead; day += 1) {
        for (const table of partitionedTables) {
          if (!there.has(partitionName({ table, day }))) await createPartition(db, { table, day });
        }
      }
    });
    this.#madeFor = today;
  }

  /** The next `ensure` asks the database again. */
  forget(): void {
    this.#madeFor = null;
  }

  /** Drops the days that are no longer kept, each in a transaction of its own; answers how many partitions. Throws what the database does. */
  async dropExpired(): Promise<number> {
    const { pool, retentionDays, nowMs } = this.#options;
    const firstKept = dayOf(nowMs()) - retentionDays;
    const all = await listPartitions(pool);
    const expired = all.filter(({ day }) => day < firstKept);
    for (const partition of expired) {
      await pool.transaction(async (db) => {
        await lockPartitions(db);
        await dropPartition(db, partition);
      });
    }
    this.#oldestDay = all.find(({ day }) => day >= firstKept)?.day ?? null;
    return expired.length;
  }
}
