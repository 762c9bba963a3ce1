/** An append engine on a real database, as the tests of the write side use it: one shard, everything injected that a test turns. */
import { Failpoints } from "@iterate-platform/service/failpoints";
import { uuidv7 } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { fileURLToPath } from "node:url";
import type { Writer } from "../caller/contract.js";
import { Vocabulary } from "../core/vocabulary.js";
import { JsonThread } from "../json/worker-thread.js";
import { realTimers } from "../timers.js";
import { LogAppender } from "./appender.js";
import type { AppendCommand, AppendEvent, AppendReceipt, CommittedBatch, ContextAddress, EphemeralBatch } from "./contract.js";
import { HeadCache } from "./head-cache.js";
import type { LogStore } from "./log-store.js";
import { LogWriter } from "./log-writer.js";
import { PostgresLogStore } from "./postgres/postgres-log-store.js";

const migrationsDir = fileURLToPath(new URL("../../migrations", import.meta.url));

export const owner = "prj_00000000000000000000000000";

/** A service of the platform that writes for itself. */
export const service: Writer = {
  kind: "service",
  origin: null,
  cause: { chain: "2030-01-01T00:00:00.000Z with service ~test", depth: 0 },
  principal: null,
  isPlatform: true,
  owner: null,
  lease: null,
};

/** A person through the edge. */
export const person: Writer = {
  kind: "person",
  origin: "/",
  cause: { chain: "2030-01-01T00:00:00.000Z with person ~test", depth: 0 },
  principal: "usr_test",
  isPlatform: false,
  owner: null,
  lease: null,
};

/** Project code under a lease. */
export function code(fields: Partial<Writer> = {}): Writer {
  return {
    kind: "code",
    origin: "/x",
    cause: { chain: "2030-01-01T00:00:00.000Z with person ~code", depth: 1 },
    principal: null,
    isPlatform: false,
    owner,
    lease: null,
    ...fields,
  };
}

export interface EventFields {
  type?: string;
  payload?: unknown;
  metadata?: unknown;
  idempotencyKey?: string;
  offset?: number;
  formatVersion?: number;
  processor?: AppendEvent["processor"];
  ephemeral?: boolean;
}

export function event({
  type = "example.com/happened",
  payload,
  metadata,
  idempotencyKey,
  offset,
  formatVersion,
  processor,
  ephemeral,
}: EventFields = {}): AppendEvent {
  return {
    type,
    payload: bytesOf(payload),
    metadata: bytesOf(metadata),
    idempotencyKey: idempotencyKey ?? null,
    expectedOffset: offset ?? null,
    formatVersion: formatVersion ?? 0,
    processor: processor ?? null,
    isEphemeral: ephemeral ?? false,
  };
}

/** A Buffer stays as it is; anything else becomes its JSON. */
function bytesOf(value: unknown): Buffer | null {
  return value === undefined ? null : Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
}

export interface TestEngine {
  readonly appender: LogAppender;
  readonly writer: LogWriter;
  readonly cache: HeadCache;
  readonly pool: Pool;
  readonly store: LogStore;
  readonly failpoints: Failpoints;
  /** What observers heard, in order. */
  readonly committed: CommittedBatch[];
  readonly ephemerals: EphemeralBatch[];
  /** Faults reported to operators. */
  readonly faults: unknown[];
  append(
    path: string,
    events: readonly (EventFields | AppendEvent)[],
    fields?: Partial<AppendCommand>,
  ): Promise<readonly AppendReceipt[]>;
  close(): Promise<void>;
}

export async function migrateLog(url: string): Promise<void> {
  await migrate({ url, dir: migrationsDir });
}

export interface EngineOptions {
  readonly url: string;
  readonly onCommit?: (batch: CommittedBatch) => void;
  readonly maxContexts?: number;
  readonly pooler?: "none" | "transaction";
  readonly vocabulary?: Vocabulary;
  readonly reducerVersion?: number;
  readonly onDue?: () => void;
  /** What stands between the engine and its database. */
  readonly storeOf?: (store: LogStore) => LogStore;
}

export function startEngine({
  url,
  onCommit,
  maxContexts = 10_000,
  pooler = "none",
  vocabulary = new Vocabulary(),
  reducerVersion,
  storeOf = (store) => store,
  onDue,
}: EngineOptions): TestEngine {
  const pool = createPool({
    url,
    applicationName: "context-test",
    max: 6,
    planCacheMode: "force_generic_plan",
    pooler,
    acquireTimeoutMs: 1_000,
  });
  const store = storeOf(new PostgresLogStore(pool));
  const cache = new HeadCache({ maxContexts, store, vocabulary, ...(reducerVersion === undefined ? {} : { reducerVersion }) });
  const failpoints = new Failpoints();
  const committed: CommittedBatch[] = [];
  const ephemerals: EphemeralBatch[] = [];
  const faults: unknown[] = [];
  const json = new JsonThread();
  const writer = new LogWriter({
    store,
    cache,
    onCommit: onCommit ?? ((batch) => void committed.push(batch)),
    onDue,
    onEphemeral: (batch) => void ephemerals.push(batch),
    writer: 7,
    timers: realTimers,
    clockMs: Date.now,
    failpoint: failpoints.pass,
    onFault: (error) => void faults.push(error),
  });
  const appender = new LogAppender({
    shardOf: () => ({ writer, cache, store }),
    json,
    newAppendId: uuidv7,
    nowMs: Date.now,
    vocabulary,
  });
  return {
    appender,
    writer,
    cache,
    pool,
    store,
    failpoints,
    committed,
    ephemerals,
    faults,
    append: (path, events, fields = {}) =>
      appender.append({
        address: address(path),
        appendId: uuidv7(),
        events: events.map((fields) => ("expectedOffset" in fields ? fields : event(fields))),
        writer: service,
        traceparent: null,
        ...fields,
      }),
    close: async () => {
      await writer.settled();
      writer.close();
      await Promise.all([pool.end(), json.close()]);
    },
  };
}

export function address(path: string): ContextAddress {
  return { owner, path };
}

export interface LoggedEvent {
  offset: number;
  type: string;
  source: { origin: string; cause: { chain: string; depth: number }; principal?: string; processor?: unknown; platform?: boolean };
  key: string | null;
  payload: string | null;
  metadata: string | null;
}

/** The log of a context as the database has it. */
export async function readLog(pool: Pool, path: string): Promise<LoggedEvent[]> {
  const { rows } = await pool.query<readonly [string, string, string, string | null, string | null, string | null]>(
    {
      text: `select e."offset", t.name, e.source, e.idempotency_key, e.payload, e.metadata from event e join event_type t using (type)
        where context_id = (select context_id from context where owner = $1 and path = $2) order by 1`,
      rowMode: "array",
    },
    [owner, path],
  );
  return rows.map(([offset, type, source, key, payload, metadata]) => ({
    offset: Number(offset),
    type,
    source: JSON.parse(source) as LoggedEvent["source"],
    key,
    payload,
    metadata,
  }));
}
