/** The append engine as the service composes it, on one database. */
import { uuidv7 } from "@iterate-platform/service/ids";
import { createPool } from "@iterate-platform/service/postgres";
import { JsonThread } from "../src/json/worker-thread.js";
import { LogAppender } from "../src/log/appender.js";
import { HeadCache } from "../src/log/head-cache.js";
import type { LogStore } from "../src/log/log-store.js";
import { LogWriter } from "../src/log/log-writer.js";
import { realTimers } from "../src/timers.js";
import { PostgresLogStore } from "../src/log/postgres/postgres-log-store.js";

export interface BenchEngine {
  readonly appender: LogAppender;
  readonly writer: LogWriter;
  readonly store: LogStore;
  readonly cache: HeadCache;
  close(): Promise<void>;
}

export function startEngine(url: string, { maxContexts = 100_000 } = {}): BenchEngine {
  const pool = createPool({ url, applicationName: "bench", max: 8, planCacheMode: "force_generic_plan" });
  const store = new PostgresLogStore(pool);
  const cache = new HeadCache({ maxContexts, store });
  const json = new JsonThread();
  const writer = new LogWriter({
    store,
    cache,
    onCommit: () => undefined,
    onEphemeral: () => undefined,
    writer: 1,
    timers: realTimers,
    clockMs: Date.now,
    failpoint: () => undefined,
    onFault: console.error,
  });
  const appender = new LogAppender({ shardOf: () => ({ writer, cache, store }), json, newAppendId: uuidv7, nowMs: Date.now });
  return {
    appender,
    writer,
    store,
    cache,
    close: async () => {
      await writer.settled();
      writer.close();
      await Promise.all([pool.end(), json.close()]);
    },
  };
}
