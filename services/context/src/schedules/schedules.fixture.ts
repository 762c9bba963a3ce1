/** One process that fires schedules, on a real database, with its rounds called by hand. */
import type { Pool } from "@iterate-platform/service/postgres";
import { eventually } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import type { ContextHead } from "../log/contract.js";
import { HeadConfirmer } from "../log/confirm.js";
import { address, startEngine, type TestEngine } from "../log/engine.fixture.js";
import type { AppendCommand } from "../log/contract.js";
import type { StoredSource } from "../log/stored-event.js";
import type { ScheduleStore } from "./contract.js";
import { ScheduleFirer } from "./firer.js";
import { DueSweeper } from "./sweeper.js";

export interface Stored {
  readonly offset: number;
  readonly type: string;
  readonly payload: unknown;
  readonly source: StoredSource;
  readonly createdAtMs: number;
}

export class SchedulePod {
  readonly engine: TestEngine;
  readonly firer: ScheduleFirer;
  readonly sweeper: DueSweeper;
  readonly failures: unknown[] = [];
  /** Commits that said something of schedules. */
  rung = 0;
  readonly #heads: HeadConfirmer;

  constructor(url: string, storeOf: (store: ScheduleStore) => ScheduleStore = (store) => store) {
    this.engine = startEngine({ url, onDue: () => void (this.rung += 1) });
    const { cache, appender, failpoints } = this.engine;
    const store = storeOf(this.engine.store.schedules);
    const refresh = (contextIds: readonly number[]) => cache.refresh(contextIds);
    this.#heads = new HeadConfirmer(cache);
    this.firer = new ScheduleFirer({
      store,
      refresh,
      appender,
      failpoint: failpoints.pass,
      onFailure: (_, error) => void this.failures.push(error),
    });
    this.sweeper = new DueSweeper({ store, reducerVersion: cache.reducerVersion, refresh });
  }

  get pool(): Pool {
    return this.engine.pool;
  }

  /** Sets a schedule; answers its offset. */
  async set(
    path: string,
    key: string,
    when: unknown,
    fields: { events?: unknown; append?: Partial<AppendCommand> } = {},
  ): Promise<number> {
    const { events = [{ type: "example.com/due", payload: { key } }], append } = fields;
    return await this.append(path, itx.scheduleSet.type, { key, when, events }, append);
  }

  async append(path: string, type: string, payload: unknown, fields?: Partial<AppendCommand>): Promise<number> {
    return (await this.engine.append(path, [{ type, payload }], fields)).at(-1)!.offset;
  }

  async head(path: string): Promise<ContextHead> {
    return (await this.#heads.confirm(address(path)))!;
  }

  /** Events of a context from an offset on. */
  async events(path: string, after = 0): Promise<Stored[]> {
    const { rows } = await this.pool.query<{ offset: string; name: string; payload: string; source: string; created_at: Date }>(
      `select e."offset", t.name, e.payload, e.source, e.created_at from event e join event_type t using (type)
       where context_id = $1 and "offset" > $2 order by 1`,
      [(await this.head(path)).contextId, after],
    );
    return rows.map(({ offset, name, payload, source, created_at }) => ({
      offset: Number(offset),
      type: name,
      payload: JSON.parse(payload) as unknown,
      source: JSON.parse(source) as StoredSource,
      createdAtMs: created_at.getTime(),
    }));
  }

  /** Moves everything the context waits for into the past by `ms`, as if so much time had gone by. */
  async age(path: string, ms: number): Promise<void> {
    const { contextId } = await this.head(path);
    const older = `- $2::float8 * interval '1 millisecond'`;
    await this.pool.query(`update event set created_at = created_at ${older} where context_id = $1`, [contextId, ms]);
    await this.pool.query(`update schedule_due set due_at = due_at ${older} where context_id = $1 and due_at < 'infinity'`, [
      contextId,
      ms,
    ]);
  }

  async dueRows(path: string): Promise<{ key: string; scheduledAt: number; dueMs: number }[]> {
    const { rows } = await this.pool.query<{ key: string; scheduled_at: string; due_ms: number }>(
      `select key, scheduled_at, (extract(epoch from due_at) * 1000)::float8 as due_ms from schedule_due where context_id = $1 order by key`,
      [(await this.head(path)).contextId],
    );
    return rows.map(({ key, scheduled_at, due_ms }) => ({ key, scheduledAt: Number(scheduled_at), dueMs: due_ms }));
  }

  /** Rounds until the context holds so many firings. */
  async untilFired(path: string, count: number): Promise<Stored[]> {
    return await eventually(async () => {
      await this.firer.round(0);
      const events = await this.events(path);
      const fired = events.filter(({ type }) => type === itx.scheduleFired.type).length;
      if (fired < count) throw new Error(`${fired} of ${count} occurrences are fired`);
      return events;
    });
  }

  close(): Promise<void> {
    return this.engine.close();
  }
}
