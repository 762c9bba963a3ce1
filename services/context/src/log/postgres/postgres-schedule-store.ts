/** Due rows of schedules in Postgres. */
import type { DueClaim, DuePage, DueRow, ScheduleStore, SettledTime, StoredDefinition } from "../../schedules/contract.js";
import { int8Array, textArray } from "./pg-array.js";
import {
  claimDue,
  definitions,
  lackingDue,
  removeDue,
  restoreDue,
  settleDue,
  type ClaimRow,
  type DefinitionRow,
  type LackingRow,
} from "./schedule.sql.js";
import type { SqlSession } from "./sql-session.js";

export class PostgresScheduleStore implements ScheduleStore {
  readonly #session: SqlSession;

  constructor(session: SqlSession) {
    this.#session = session;
  }

  async claimDue(limit: number, claimMs: number, aheadMs: number): Promise<DuePage> {
    const claims: DueClaim[] = [];
    let [now, next]: [number, number | null] = [0, null];
    for (const [contextId, key, scheduledAt, dueMs, token, nowMs, nextMs] of await this.#session.query<ClaimRow>(claimDue, [
      limit,
      claimMs,
      aheadMs,
    ])) {
      now = Number(nowMs);
      if (contextId === null) next = nextMs;
      else {
        claims.push({
          contextId: Number(contextId),
          key: key!,
          scheduledAtOffset: Number(scheduledAt),
          dueMs: Number(dueMs),
          token: Number(token),
        });
      }
    }
    return { claims, nowMs: now, nextInMs: next };
  }

  async settleDue({ contextId, key, token }: DueClaim, due: SettledTime | null): Promise<void> {
    if (due === null) await this.#session.query(removeDue, [contextId, key, token]);
    else await this.#session.query(settleDue, [contextId, key, token, columnOf(due)]);
  }

  async definitions(places: readonly { readonly contextId: number; readonly offset: number }[]): Promise<StoredDefinition[]> {
    if (places.length === 0) return [];
    const rows = await this.#session.query<DefinitionRow>(definitions, [
      int8Array(places.map(({ contextId }) => contextId)),
      int8Array(places.map(({ offset }) => offset)),
    ]);
    return rows.map(([contextId, offset, createdAtUs, formatVersion, payload, source]) => ({
      contextId: Number(contextId),
      offset: Number(offset),
      createdAtUs: Number(createdAtUs),
      formatVersion,
      payload,
      source,
    }));
  }

  async lackingDue(afterContextId: number, limit: number, reducerVersion: number) {
    const rows = await this.#session.query<LackingRow>(lackingDue, [afterContextId, limit, reducerVersion]);
    const last = rows.at(-1);
    return {
      contextIds: rows.filter(([, isLacking]) => isLacking).map(([contextId]) => Number(contextId)),
      throughContextId: last === undefined ? null : Number(last[0]),
    };
  }

  async restoreDue(rows: readonly DueRow[]): Promise<number> {
    if (rows.length === 0) return 0;
    const restored = await this.#session.query(restoreDue, [
      int8Array(rows.map(({ contextId }) => contextId)),
      textArray(rows.map(({ key }) => key)),
      int8Array(rows.map(({ scheduledAtOffset }) => scheduledAtOffset)),
      int8Array(rows.map(({ due }) => columnOf(due))),
    ]);
    return restored.length;
  }
}

/** Milliseconds since 1970, or −1 for a row that is held. */
function columnOf(due: SettledTime): number {
  return due.kind === "at" ? Math.max(0, due.atMs) : -1;
}
