/** A process that gives up the past of logs, over a real database; several of them share it in a test. */
import type { Pool } from "@iterate-platform/service/postgres";
import { itx } from "iterate/events";
import { chainNames } from "../caller/writer.js";
import { HeadConfirmer } from "../log/confirm.js";
import { address, startEngine, type TestEngine } from "../log/engine.fixture.js";
import { EventTypes } from "../log/event-types.js";
import type { ContextHead } from "../log/contract.js";
import { PostgresLogStore } from "../log/postgres/postgres-log-store.js";
import { PostgresRetentionStore } from "../log/postgres/postgres-retention-store.js";
import { PooledSession } from "../log/postgres/sql-session.js";
import type { Page } from "../log/page.js";
import { LogReader } from "../log/read.js";
import { TypeBlocks } from "../log/type-blocks.js";
import { RetentionSweeper, retentionTimes, type RetentionTimes } from "./sweeper.js";

export class RetentionPod {
  readonly engine: TestEngine;
  readonly store: PostgresRetentionStore;
  readonly heads: HeadConfirmer;
  readonly reader: LogReader;
  readonly sweeper: RetentionSweeper;
  readonly failures: unknown[] = [];

  constructor(url: string, times: Partial<RetentionTimes> = {}) {
    this.engine = startEngine({ url });
    const { pool, cache, appender, failpoints } = this.engine;
    const log = new PostgresLogStore(pool);
    this.store = new PostgresRetentionStore(new PooledSession(pool));
    this.heads = new HeadConfirmer(cache);
    this.reader = new LogReader({ store: log, heads: this.heads, types: new EventTypes(log), blocks: new TypeBlocks(log) });
    this.sweeper = new RetentionSweeper({
      store: this.store,
      refresh: (contextIds) => cache.refresh(contextIds),
      appender,
      newChain: chainNames({ nowMs: Date.now, random: Math.random }),
      failpoint: failpoints.pass,
      times: { ...retentionTimes, sweepMs: 0, ...times },
      onFailure: (_, error) => void this.failures.push(error),
    });
  }

  get pool(): Pool {
    return this.engine.pool;
  }

  /** Says what the context at `path` keeps; answers the offset of that. */
  async keepFrom(path: string, keepFrom: unknown): Promise<number> {
    return await this.append(path, itx.retentionConfigured.type, { keepFrom });
  }

  async subscribe(path: string, name: string, afterOffset?: number): Promise<number> {
    const target = ["itx", "builtins", "processors", ["get", name]];
    return await this.append(path, itx.subscriptionConfigured.type, { name, target, afterOffset });
  }

  async append(path: string, type: string, payload: unknown): Promise<number> {
    return (await this.engine.append(path, [{ type, payload }]))[0]!.offset;
  }

  /** Appends `count` events, each a commit of its own. */
  async fill(path: string, count: number): Promise<void> {
    for (let n = 0; n < count; n += 1) await this.engine.append(path, [{ payload: { n } }]);
  }

  async head(path: string): Promise<ContextHead> {
    return (await this.heads.confirm(address(path)))!;
  }

  read(path: string, after: number, types: readonly string[] = []): Promise<Page> {
    return this.reader.read(address(path), after, types, { limit: 1_000, maxBytes: 8_388_608 });
  }

  /** Rounds until nothing is due at once. */
  async sweep(): Promise<void> {
    while (await this.sweeper.round());
  }

  async report(path: string, name: string, configuredAt: number, floor: number, resumedAt = 0): Promise<void> {
    await this.store.reportFloors([{ ...address(path), name, configuredAt, resumedAt, floor }]);
  }

  /** What the database has of a context: offset and what is left of the event. */
  async rows(path: string): Promise<readonly { offset: number; rest: "whole" | "key"; type: string }[]> {
    const { rows } = await this.pool.query<{ offset: string; format_version: number; name: string }>(
      `select e."offset", e.format_version, t.name from event e join event_type t using (type) where context_id = $1 order by 1`,
      [(await this.head(path)).contextId],
    );
    return rows.map(({ offset, format_version, name }) => ({
      offset: Number(offset),
      rest: format_version === 0 ? "key" : "whole",
      type: name,
    }));
  }

  /** Makes the events and commits up to `through` older. */
  async age(path: string, through: number, ms: number): Promise<void> {
    const { contextId } = await this.head(path);
    const by = [contextId, through, ms];
    const older = `- $3::float8 * interval '1 millisecond'`;
    await this.pool.query(`update event set created_at = created_at ${older} where context_id = $1 and "offset" <= $2`, by);
    await this.pool.query(`update commit set at = at ${older} where context_id = $1 and last_offset <= $2`, by);
    await this.pool.query(`update truncation set at = at ${older} where context_id = $1 and first_offset <= $2`, by);
  }

  close(): Promise<void> {
    return this.engine.close();
  }
}
