/**
 * The read side against what it stands on, as ratios of one run: StreamEvents against one `pg` connection that pages the same rows,
 * appends with publication against appends without, and how long after its append's answer a live subscriber has an event.
 *
 * Run by `make bench`, compiled: [--events 200000] [--rounds 3] [--seconds 3].
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { EventInput } from "@iterate-platform/proto/iterate/type/v1/event";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { createLog } from "@iterate-platform/service/log";
import { connectBroker } from "@iterate-platform/service/nats";
import { durableSettings, startNats, startPrivatePostgres } from "@iterate-platform/testing";
import pg from "pg";
import { JsonThread } from "../src/json/worker-thread.js";
import { LogAppender } from "../src/log/appender.js";
import type { CommitObserver } from "../src/log/contract.js";
import { Shard } from "../src/log/shard.js";
import { write } from "../src/log/sql-log.fixture.js";
import { createPool } from "@iterate-platform/service/postgres";
import { CommitNews } from "../src/publish/commit-news.js";
import { CommitStream } from "../src/publish/commit-stream.js";
import { ContextProcess, Deployment } from "../test/context-process.js";
import { makeDatabase } from "./database.js";

const { values: options } = parseArgs({
  options: {
    events: { type: "string", default: "200000" },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "3" },
  },
});
/** Beside this bench, once that is compiled. */
const compiledService = ["--max-semi-space-size=64", fileURLToPath(new URL("../main.js", import.meta.url))];
const events = Number(options.events);
const rounds = Number(options.rounds);
const durationMs = Number(options.seconds) * 1_000;

const body = Buffer.from(JSON.stringify({ text: "x".repeat(188) }));
const input: EventInput = {
  type: "example.com/happened",
  payload: body,
  metadata: undefined,
  idempotencyKey: "",
  expectedOffset: undefined,
  processor: undefined,
  ephemeral: false,
  formatVersion: 0,
};
const median = (values: readonly number[]): number => values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)]!;
const percentile = (values: readonly number[], share: number): number =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length * share)]!;
const thousands = (perSecond: number): string => `${(perSecond / 1_000).toFixed(0)}k/s`;

const postgres = await startPrivatePostgres({ settings: durableSettings });
const nats = await startNats({ jetstream: true });
const deployment = await Deployment.make();
const database = await makeDatabase(postgres.adminUrl);
try {
  await streaming();
  await publication(256);
  await publication(1_024);
  await liveness();
} finally {
  await nats.stop();
  await postgres.stop();
  deployment.remove();
}
process.exit(0);

async function streaming(): Promise<void> {
  const context = { owner: newId("prj"), path: "/long" };
  const pool = createPool({ url: database.url, applicationName: "bench", max: 2 });
  for (let at = 0; at < events; at += 5_000) {
    await write(
      pool,
      context,
      Array.from({ length: Math.min(5_000, events - at) }, () => ({ type: input.type, payload: body.toString() })),
    );
  }
  await pool.query("vacuum analyze event");
  await pool.end();
  const server = await ContextProcess.start({
    deployment,
    databaseUrl: database.url,
    natsUrl: nats.url,
    env: { LOG_LEVEL: "info" },
    program: compiledService,
  });
  const client = server.as("ingress").context;
  const raw = { 500: [] as number[], 2_000: [] as number[] };
  const streamed: number[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const measured = {
      page500: await rate(() => pageRows(500)),
      page2000: await rate(() => pageRows(2_000)),
      stream: await rate(async () => {
        let count = 0;
        for await (const page of client.streamEvents({ context, afterOffset: 0n, types: [], includeEphemeral: false })) {
          count += page.events.length;
          if (page.atHead) break;
        }
        return count;
      }),
    };
    // The first round warms both.
    if (round === 0) continue;
    raw[500].push(measured.page500);
    raw[2_000].push(measured.page2000);
    streamed.push(measured.stream);
  }
  await server.stop();
  console.log(
    `StreamEvents of ${events} events: ${thousands(median(streamed))}; one pg connection paging 500 rows: ${thousands(median(raw[500]))}, 2,000 rows: ${thousands(median(raw[2_000]))}`,
  );
  console.log(
    `  ratio to pages of 500: ${ratio(streamed, raw[500])}, of 2,000: ${ratio(streamed, raw[2_000])} (bar 0.9, to plain rows as \`pg\` answers them)`,
  );

  async function pageRows(limit: number): Promise<number> {
    const connection = new pg.Client({ connectionString: database.url });
    await connection.connect();
    const id = (await connection.query("select context_id from context where owner = $1", [context.owner])).rows[0]
      .context_id as string;
    let after = "0";
    let count = 0;
    for (;;) {
      const { rows } = await connection.query({
        name: `page_${limit}`,
        text: `select "offset", type, format_version, created_at, source, traceparent, idempotency_key, payload, metadata
               from event where context_id = $1 and "offset" > $2 order by "offset" limit $3`,
        values: [id, after, limit],
      });
      count += rows.length;
      if (rows.length < limit) break;
      after = rows.at(-1).offset as string;
    }
    await connection.end();
    return count;
  }
}

async function rate(read: () => Promise<number>): Promise<number> {
  const from = performance.now();
  const count = await read();
  return (count / (performance.now() - from)) * 1_000;
}

/** The median over the rounds of the ratio within a round: the machine drifts between rounds. */
function ratio(numerators: readonly number[], denominators: readonly number[]): string {
  return median(numerators.map((numerator, at) => numerator / denominators[at]!)).toFixed(2);
}

async function publication(inFlight: number): Promise<void> {
  const on: number[] = [];
  const off: number[] = [];
  let told = "";
  for (let round = 0; round <= rounds; round += 1) {
    const without = await appends(inFlight, undefined);
    const { perSecond, counts } = await withNews(inFlight);
    if (round === 0) continue;
    off.push(without);
    on.push(perSecond);
    told = counts;
  }
  console.log(
    `${inFlight} in flight: appends with publication ${thousands(median(on))}, without ${thousands(median(off))}; ratio ${ratio(on, off)} (bar ${inFlight === 256 ? "0.7" : "0.8"}); ${told}`,
  );
}

async function withNews(inFlight: number): Promise<{ perSecond: number; counts: string }> {
  const log = createLog("bench", { level: "error" });
  const broker = connectBroker({ url: nats.url, name: "bench", log });
  const stream = new CommitStream({ broker, log, replicas: 1 });
  const news = new CommitNews({
    broker,
    log,
    heads: { confirm: () => Promise.resolve(undefined) },
    onUnstored: () => stream.ensure(),
  });
  while (broker.status() !== "connected") await new Promise((resolve) => setTimeout(resolve, 10));
  const perSecond = await appends(inFlight, news.observe);
  const { commits, sent, acknowledged, dropped } = news.publisher.counts;
  await news.close(2_000);
  await stream.close();
  await broker.close();
  return { perSecond, counts: `${commits} commits in ${sent} messages, ${acknowledged} acknowledged, ${dropped} dropped` };
}

/** Appends per second in this process, one event each, over 256 contexts. */
async function appends(inFlight: number, onCommit: CommitObserver | undefined): Promise<number> {
  const shard = new Shard({
    url: database.url,
    maxConnections: 8,
    pooler: "none",
    maxContexts: 10_000,
    onCommit: onCommit ?? (() => undefined),
    onEphemeral: () => undefined,
    onFault: console.error,
    failpoint: () => undefined,
    writer: 1,
  });
  const json = new JsonThread();
  const appender = new LogAppender({ shardOf: () => shard, json, newAppendId: uuidv7, nowMs: Date.now });
  const owner = newId("prj");
  const writer = {
    kind: "service",
    origin: null,
    cause: { chain: "bench", depth: 0 },
    principal: null,
    isPlatform: true,
    owner: null,
    lease: null,
  } as const;
  const event = {
    type: input.type,
    payload: body,
    metadata: null,
    idempotencyKey: null,
    expectedOffset: null,
    processor: null,
    formatVersion: 0,
    isEphemeral: false,
  };
  let next = 0;
  let done = 0;
  let end = Infinity;
  const worker = async (): Promise<void> => {
    while (performance.now() < end) {
      await appender.append({
        address: { owner, path: `/c${next++ % 256}` },
        appendId: null,
        events: [event],
        writer,
        traceparent: null,
      });
      done += 1;
    }
  };
  end = performance.now() + 500;
  await Promise.all(Array.from({ length: inFlight }, worker));
  done = 0;
  const from = performance.now();
  end = from + durationMs;
  await Promise.all(Array.from({ length: inFlight }, worker));
  const perSecond = (done / (performance.now() - from)) * 1_000;
  await shard.close();
  await json.close();
  return perSecond;
}

/** From the sending of an append to its answer, and to its arrival at a subscriber of the same and of another process. */
async function liveness(): Promise<void> {
  const start = { deployment, databaseUrl: database.url, natsUrl: nats.url, env: { LOG_LEVEL: "info" }, program: compiledService };
  const [writing, other] = await Promise.all([ContextProcess.start(start), ContextProcess.start(start)]);
  const context = { owner: newId("prj"), path: "/live" };
  const client = writing.as("ingress").context;
  const arrivals = { same: new Map<number, number>(), other: new Map<number, number>() };
  const leaving = new AbortController();
  for (const [name, reader] of [
    ["same", writing],
    ["other", other],
  ] as const) {
    void (async () => {
      for await (const page of reader
        .as("runner")
        .context.streamEvents({ context, afterOffset: 0n, types: [], includeEphemeral: false }, { signal: leaving.signal }))
        for (const { offset } of page.events) arrivals[name].set(Number(offset), performance.now());
    })().catch(() => undefined);
  }
  const answered: number[] = [];
  const late = { same: [] as number[], other: [] as number[] };
  for (let n = 0; n < 1_000; n += 1) {
    const from = performance.now();
    const { receipts } = await client.append({ context, appendId: uuidv7(), events: [input] });
    const offset = Number(receipts[0]!.offset);
    answered.push(performance.now() - from);
    for (const name of ["same", "other"] as const) {
      while (!arrivals[name].has(offset)) await new Promise((resolve) => setImmediate(resolve));
      late[name].push(arrivals[name].get(offset)! - from);
    }
  }
  leaving.abort();
  await Promise.all([writing.stop(), other.stop()]);
  const show = (values: readonly number[]): string =>
    `p50 ${percentile(values, 0.5).toFixed(1)} ms, p99 ${percentile(values, 0.99).toFixed(1)} ms`;
  console.log(`append answered: ${show(answered)}`);
  console.log(
    `event at a subscriber of the same process: ${show(late.same)}; of another process: ${show(late.other)} (bar: p99 of the append + 10 ms)`,
  );
}
