/** The engine without gRPC: `node … bench/in-process.ts <admin url>`. Prints ratios to raw inserts of the same run. */
import { createPool } from "@iterate-platform/service/postgres";
import { uuidv7 } from "@iterate-platform/service/ids";
import { setTimeout as pause } from "node:timers/promises";
import { JsonThread } from "../src/json/worker-thread.js";
import { LogAppender } from "../src/log/appender.js";
import { HeadCache } from "../src/log/head-cache.js";
import { LogWriter } from "../src/log/log-writer.js";
import { PooledSession } from "../src/log/sql-session.js";
import type { Writer } from "../src/caller/contract.js";
import { makeDatabase, rawRowsPerSecond } from "./database.js";
import { runLoad } from "./load.js";

const adminUrl = process.argv[2]!;
const rounds = Number(process.argv[3] ?? 2);
const owner = "prj_00000000000000000000000000";
const payload = JSON.stringify({ text: "x".repeat(188) });
const bytes = Buffer.from(payload);
const writer: Writer = { kind: "service", origin: null, cause: { chain: "2030-01-01T00:00:00.000Z with service ~1234567890", depth: 0 }, principal: null, isPlatform: true, owner: null, lease: null };
const source = JSON.stringify({ origin: "/bench/123", cause: writer.cause, platform: true });

export function engine(url: string) {
  const pool = createPool({ url, applicationName: "bench", max: 8, planCacheMode: "force_generic_plan" });
  const session = new PooledSession(pool);
  const cache = new HeadCache({ maxContexts: 100_000, session });
  const json = new JsonThread();
  const logWriter = new LogWriter({ pool, cache, onCommit: () => {}, writer: 1, nowMs: Date.now, pause: (ms) => pause(ms), failpoint: () => {}, onFault: console.error });
  const appender = new LogAppender({ shardOf: () => ({ writer: logWriter, cache, session }), json, newAppendId: uuidv7, nowMs: Date.now });
  return { appender, logWriter, close: async () => { await logWriter.settled(); logWriter.close(); await pool.end(); await json.close(); } };
}

const database = await makeDatabase(adminUrl);
const { appender, logWriter, close } = engine(database.url);
let key = 0;
const append = (contexts: number, hasKey: boolean) => (index: number) =>
  appender.append({
    address: { owner, path: `/bench/${index % contexts}` },
    appendId: uuidv7(),
    events: [{ type: "example.com/bench", payload: bytes, metadata: null, idempotencyKey: hasKey ? `key-${key++}` : null, expectedOffset: null, processor: null }],
    writer,
    traceparent: null,
  });
await runLoad({ inFlight: 256, durationMs: 500, warmUpMs: 0, call: append(256, false) });
for (let round = 0; round < rounds; round += 1) {
  const raw = await rawRowsPerSecond({ url: database.url, contexts: 256, payload, source, hasKeys: false, durationMs: 2_000 });
  const show = (name: string, result: { perSecond: number; p50Ms: number; p99Ms: number }): void =>
    console.log(`${name.padEnd(32)} ${(result.perSecond / 1000).toFixed(1).padStart(7)}k/s  p50 ${result.p50Ms.toFixed(2)}  p99 ${result.p99Ms.toFixed(2)}  ÷raw ${(result.perSecond / raw).toFixed(2)}`);
  console.log(`raw ${(raw / 1000).toFixed(1)}k/s`);
  for (const [name, contexts, inFlight, hasKey] of [
    ["256 contexts, 64", 256, 64, false],
    ["256 contexts, 1024", 256, 1024, false],
    ["256 contexts, 1024, keys", 256, 1024, true],
    ["one context, 64", 1, 64, false],
    ["idle", 256, 1, false],
  ] as const) {
    const before = logWriter.counters.groups;
    const result = await runLoad({ inFlight, durationMs: 2_000, warmUpMs: 300, call: append(contexts, hasKey) });
    show(`${name} (groups ${logWriter.counters.groups - before})`, result);
  }
}
await close();
await database.drop();
