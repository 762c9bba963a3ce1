/** Retention in Postgres. */
import type { ReportedFloor, RetentionStore, SubscriptionFloor } from "../../retention/contract.js";
import { int8Array, textArray } from "./pg-array.js";
import {
  beginTruncation,
  claimRetention,
  emptyEvents,
  eventAges,
  firstYounger,
  floorsOf,
  keepFloors,
  noticeRetention,
  purgeKeys,
  releaseRetention,
  reportFloors,
  type FloorRow,
} from "./retention.sql.js";
import type { SqlSession } from "./sql-session.js";

export class PostgresRetentionStore implements RetentionStore {
  readonly #session: SqlSession;

  constructor(session: SqlSession) {
    this.#session = session;
  }

  async noticeChanges(limit: number): Promise<void> {
    await this.#session.query(noticeRetention, [limit]);
  }

  async claim(limit: number, claimMs: number): Promise<number[]> {
    return (await this.#session.query<readonly [string]>(claimRetention, [limit, claimMs])).map(([contextId]) => Number(contextId));
  }

  async release(contextId: number, dueInMs: number): Promise<void> {
    await this.#session.query(releaseRetention, [contextId, dueInMs]);
  }

  async firstYoungerThan(contextId: number, from: number, through: number, maxAgeMs: number): Promise<number> {
    const [row] = await this.#session.query<readonly [string]>(firstYounger, [contextId, from, through, maxAgeMs]);
    return Number(row![0]);
  }

  async agesOf(contextId: number, offsets: readonly number[]): Promise<ReadonlyMap<number, number>> {
    if (offsets.length === 0) return new Map();
    const rows = await this.#session.query<readonly [string, number]>(eventAges, [contextId, int8Array(offsets)]);
    return new Map(rows.map(([offset, ageMs]) => [Number(offset), ageMs]));
  }

  async begin(contextId: number, firstOffset: number): Promise<void> {
    await this.#session.query(beginTruncation, [contextId, firstOffset]);
  }

  async empty(contextId: number, limit: number): Promise<boolean> {
    const [row] = await this.#session.query<readonly [boolean]>(emptyEvents, [contextId, limit]);
    return row?.[0] ?? false;
  }

  async purge(contextId: number, limit: number, keptMs: number): Promise<boolean> {
    const [row] = await this.#session.query<readonly [boolean]>(purgeKeys, [contextId, limit, keptMs]);
    return row![0];
  }

  async reportFloors(floors: readonly ReportedFloor[]): Promise<void> {
    await this.#session.query(reportFloors, [
      textArray(floors.map(({ owner }) => owner)),
      textArray(floors.map(({ path }) => path)),
      textArray(floors.map(({ name }) => name)),
      int8Array(floors.map(({ configuredAt }) => configuredAt)),
      int8Array(floors.map(({ resumedAt }) => resumedAt)),
      int8Array(floors.map(({ floor }) => floor)),
    ]);
  }

  async floorsOf(contextId: number): Promise<SubscriptionFloor[]> {
    return (await this.#session.query<FloorRow>(floorsOf, [contextId])).map(([name, configuredAt, resumedAt, floor]) => ({
      name,
      configuredAt: Number(configuredAt),
      resumedAt: Number(resumedAt),
      floor: Number(floor),
    }));
  }

  async keepFloors(contextId: number, names: readonly string[]): Promise<void> {
    await this.#session.query(keepFloors, [contextId, textArray(names)]);
  }
}
