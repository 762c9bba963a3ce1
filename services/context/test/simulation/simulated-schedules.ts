/** `ScheduleStore` over a simulated log. A statement about one row happens at one moment, like every other. */
import type { ScheduleTable } from "../../src/core/schedules.js";
import type { DueClaim, DuePage, DueRow, ScheduleStore, SettledTime, StoredDefinition } from "../../src/schedules/contract.js";
import { dueName, dueRecord, dueUsOf, type DueRecord, type SimulatedLog } from "./simulated-log.js";
import type { Statements } from "./statements.js";

export class SimulatedSchedules implements ScheduleStore {
  readonly #log: SimulatedLog;
  readonly #statements: Statements;

  constructor(log: SimulatedLog, statements: Statements) {
    this.#log = log;
    this.#statements = statements;
  }

  claimDue(limit: number, claimMs: number, aheadMs: number): Promise<DuePage> {
    return this.#statements.send("claimDue", () => {
      const { nowUs } = this.#log;
      const rows = [...this.#log.due.values()].sort((one, other) => one.dueUs - other.dueUs);
      const taken = rows.filter(({ dueUs, claimedUntilUs }) => dueUs <= nowUs && claimedUntilUs <= nowUs).slice(0, limit);
      for (const row of taken) row.claimedUntilUs = nowUs + claimMs * 1_000;
      const next = rows.find(({ dueUs }) => dueUs > nowUs && dueUs <= nowUs + aheadMs * 1_000);
      return {
        claims: taken.map(({ contextId, key, scheduledAtOffset, dueUs, claimedUntilUs }) => ({
          contextId,
          key,
          scheduledAtOffset,
          dueMs: Math.floor(dueUs / 1_000),
          token: claimedUntilUs,
        })),
        nowMs: Math.floor(nowUs / 1_000),
        nextInMs: next === undefined ? null : (next.dueUs - nowUs) / 1_000,
      };
    });
  }

  settleDue(claim: DueClaim, due: SettledTime | null): Promise<void> {
    return this.#statements.send("settleDue", () => {
      const row = this.#claimed(claim);
      if (row === undefined) return;
      if (due === null) this.#log.due.delete(dueName(row.contextId, row.key));
      else Object.assign(row, { dueUs: dueUsOf(due, this.#log.nowUs), claimedUntilUs: -Infinity });
    });
  }

  definitions(places: readonly { readonly contextId: number; readonly offset: number }[]): Promise<StoredDefinition[]> {
    return this.#statements.send("definitions", () =>
      places.flatMap(({ contextId, offset }) => {
        const context = this.#log.byId(contextId);
        const event = context?.events[context.indexAfter(offset - 1)];
        if (event?.offset !== offset) return [];
        const { createdAtUs, formatVersion, payload, source } = event;
        return [{ contextId, offset, createdAtUs, formatVersion, payload, source }];
      }),
    );
  }

  lackingDue(afterContextId: number, limit: number, reducerVersion: number) {
    return this.#statements.send("lackingDue", () => {
      const page = [...this.#log.contexts]
        .flatMap((context) => {
          const row = context.coreRows(reducerVersion).find(({ concern }) => concern === "schedules");
          return row === undefined ? [] : [{ contextId: context.contextId, table: JSON.parse(row.state) as ScheduleTable }];
        })
        .filter(({ contextId }) => contextId > afterContextId)
        .sort((one, other) => one.contextId - other.contextId)
        .slice(0, limit);
      return {
        contextIds: page.filter(({ contextId, table }) => this.#isLacking(contextId, table)).map(({ contextId }) => contextId),
        throughContextId: page.at(-1)?.contextId ?? null,
      };
    });
  }

  restoreDue(rows: readonly DueRow[]): Promise<number> {
    return this.#statements.send("restoreDue", () => {
      let restored = 0;
      for (const { contextId, key, scheduledAtOffset, due } of rows) {
        const held = this.#log.due.get(dueName(contextId, key));
        const dueUs = dueUsOf(due, this.#log.nowUs);
        const isNeeded =
          held === undefined ||
          held.scheduledAtOffset < scheduledAtOffset ||
          (held.scheduledAtOffset === scheduledAtOffset && held.dueUs === Infinity && dueUs < Infinity);
        if (!isNeeded) continue;
        this.#log.due.set(dueName(contextId, key), dueRecord(contextId, key, scheduledAtOffset, dueUs));
        restored += 1;
      }
      return restored;
    });
  }

  #claimed({ contextId, key, token }: DueClaim): DueRecord | undefined {
    const row = this.#log.due.get(dueName(contextId, key));
    return row?.claimedUntilUs === token ? row : undefined;
  }

  #isLacking(contextId: number, table: ScheduleTable): boolean {
    return Object.values(table).some(({ key, scheduledAtOffset, failedAtOffset }) => {
      const row = this.#log.due.get(dueName(contextId, key));
      return failedAtOffset === null && (row?.scheduledAtOffset !== scheduledAtOffset || row.dueUs === Infinity);
    });
  }
}
