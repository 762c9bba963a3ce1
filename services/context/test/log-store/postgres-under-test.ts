/** Postgres as the conformance suite turns it. */
import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { eventually, FaultProxy } from "@iterate-platform/testing";
import type { LogLane } from "../../src/log/log-store.js";
import { PostgresLogStore } from "../../src/log/postgres/postgres-log-store.js";
import type { StoreUnderTest } from "./store-under-test.js";

export class PostgresUnderTest implements StoreUnderTest {
  readonly store: PostgresLogStore;
  readonly #url: string;
  readonly #pool: Pool;
  readonly #watcher: Pool;
  readonly #proxy: FaultProxy;
  readonly #proxied: Pool;

  private constructor(url: string, proxy: FaultProxy) {
    this.#url = url;
    this.#proxy = proxy;
    this.#pool = poolOf(url, 12);
    this.#watcher = poolOf(url, 1);
    this.#proxied = poolOf(proxy.url(url), 2);
    this.store = new PostgresLogStore(this.#pool);
  }

  /** On an empty database. */
  static async make(url: string): Promise<PostgresUnderTest> {
    await migrate({ url, dir: new URL("../../migrations", import.meta.url).pathname });
    return new PostgresUnderTest(url, await FaultProxy.start(url));
  }

  async untilBlocked(count: number): Promise<void> {
    await eventually(async () => {
      const { rows } = await this.#watcher.query<{ count: number }>(
        "select count(*)::int as count from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
      );
      return rows[0]!.count === count;
    });
  }

  async openLaneThatLosesAnAnswer(): Promise<LogLane> {
    const lane = new PostgresLogStore(this.#proxied).openLane();
    // The connection is there, and its statements are not prepared: the next one sends its text.
    await lane.generation();
    void this.#proxy.cutAtAnswer({ afterClientText: "insert into event " });
    return lane;
  }

  async raiseGeneration(): Promise<void> {
    await this.#watcher.query("update shard set generation = generation + 1");
  }

  async close(): Promise<void> {
    await Promise.all([this.#pool.end(), this.#watcher.end(), this.#proxied.end()]);
    this.#proxy.stop();
  }

  get url(): string {
    return this.#url;
  }
}

function poolOf(url: string, max: number): Pool {
  return createPool({ url, applicationName: "conformance", max, planCacheMode: "force_generic_plan" });
}
