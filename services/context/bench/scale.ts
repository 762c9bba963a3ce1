/**
 * What a large log costs an append: the same load on an empty database and on one that holds a million contexts and ten million
 * events, alternated in one run; the first append to a context that no process holds against one to a context that is held; and what
 * a context costs in memory once it is idle. Run by `make bench`, compiled: <admin url> [contexts] [rounds] [seconds].
 */
import { partitionOf, uuidv7 } from "@iterate-platform/service/ids";
import pg from "pg";
import { coreVersion } from "../src/core/fold.js";
import { makeDatabase } from "./database.js";
import { startEngine, type BenchEngine } from "./engine.js";
import { runLoad } from "./load.js";
import { median } from "./statistics.js";

const [adminUrl, count = "1000000", rounds = "3", seconds = "2"] = process.argv.slice(2) as [string, string?, string?, string?];
const contexts = Number(count);
const eventsPerContext = 10;
const durationMs = Number(seconds) * 1_000;
const owner = "prj_00000000000000000000000000";
const payload = Buffer.from(JSON.stringify({ text: "x".repeat(188) }));
const cause = { chain: "2030-01-01T00:00:00.000Z with service ~12345678", depth: 0 };
const source = JSON.stringify({ origin: "/bench/123", cause, platform: true });
const hot = 256;

const empty = await makeDatabase(adminUrl);
const full = await makeDatabase(adminUrl);
try {
  const startedAt = performance.now();
  await fill(full.url);
  console.log(
    `filled with ${contexts} contexts and ${contexts * eventsPerContext} events in ${((performance.now() - startedAt) / 1_000).toFixed(0)} s`,
  );
  await size();
  await cold();
  await idleMemory();
} finally {
  await empty.drop();
  await full.drop();
}

/** Rows as the engine would have written them, by statements of a partition each. */
async function fill(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("set enable_seqscan = on");
    await client.query("insert into event_type (name) values ('example.com/bench'), ('events.iterate.com/itx/created')");
    const byPartition = Map.groupBy(
      Array.from({ length: contexts }, (_, at) => at),
      (at) => partitionOf(owner, pathOf(at)),
    );
    for (const [partition, members] of byPartition) {
      await client.query("insert into partition_counter (partition, last_number) values ($1, $2)", [partition, members.length]);
      await client.query(
        `with made as (
          insert into context (context_id, owner, path)
          select ($1::bigint << 40) | n, $2, path from unnest($3::text[]) with ordinality p(path, n) returning context_id, path
        ), committed as (
          insert into commit (context_id, commit_no, first_offset, last_offset, reserved_through, last_control, writer, runner_epoch, generation, partition)
          select context_id, n, n, n, n, 1, 1, 0, 1, $1::bigint from made cross join generate_series(1, $4::int) n
        ), core as (
          insert into core_state (context_id, concern, reducer_version, as_of, state)
          select context_id, 'identity', $7::int, 1, json_build_object('owner', $2, 'path', path, 'createdAtOffset', 1)::text from made
        )
        insert into event (context_id, "offset", type, format_version, is_control, append_id, source, payload)
        select context_id, n, case n when 1 then 2 else 1 end, 1, n = 1, gen_random_uuid(), $5,
          case n when 1 then json_build_object('owner', $2, 'path', path)::text else $6 end
        from made cross join generate_series(1, $4::int) n`,
        [partition, owner, members.map(pathOf), eventsPerContext, source, payload.toString(), coreVersion],
      );
    }
    await client.query("vacuum analyze");
    await client.query("checkpoint");
  } finally {
    await client.end();
  }
}

async function size(): Promise<void> {
  const engines = { empty: startEngine(empty.url), full: startEngine(full.url) };
  const loads = [
    { name: "idle", inFlight: 1, must: 1.15, aim: 1.05 },
    { name: "64 in flight", inFlight: 64, must: 1.3, aim: 1.15 },
    { name: "saturated, 1,024 in flight", inFlight: 1_024, must: 1.7, aim: 1.3 },
  ];
  const ratios = new Map<string, number[]>(loads.map(({ name }) => [name, []]));
  try {
    for (const engine of Object.values(engines)) await p50Ms(engine, 64, 1_000);
    for (let round = 1; round <= Number(rounds); round += 1) {
      for (const { name, inFlight } of loads) {
        const small = await p50Ms(engines.empty, inFlight, durationMs);
        const large = await p50Ms(engines.full, inFlight, durationMs);
        ratios.get(name)!.push(large / small);
      }
    }
  } finally {
    await engines.empty.close();
    await engines.full.close();
  }
  for (const { name, must, aim } of loads) {
    console.log(
      `${name}: p50 with ${contexts} contexts ÷ empty (must ≤ ${must}, aim ${aim}): ${median(ratios.get(name)!).toFixed(2)}`,
    );
  }
}

/** Each context is appended to twice; before the first append no process holds it. */
async function cold(): Promise<void> {
  const engine = startEngine(full.url);
  const first: number[] = [];
  const second: number[] = [];
  try {
    await p50Ms(engine, 64, 1_000);
    for (let round = 0; round < 1_000; round += 1) {
      const at = Math.floor(Math.random() * contexts);
      for (const times of [first, second]) {
        const start = performance.now();
        await append(engine, at);
        times.push(performance.now() - start);
      }
    }
  } finally {
    await engine.close();
  }
  console.log(
    `first append to a context that is not held ÷ the next, p50 (must ≤ 2, aim 1.4): ${(median(first) / median(second)).toFixed(2)}`,
  );
}

/** A process that may hold few contexts goes over many: what stays of those it let go. */
async function idleMemory(): Promise<void> {
  const engine = startEngine(full.url, { maxContexts: 1_000 });
  const touched = Math.min(contexts, 20_000);
  try {
    await touch(engine, 0, 2_000);
    const before = heapBytes();
    await touch(engine, 2_000, touched);
    console.log(
      `memory of an idle context (must: none): ${Math.max(0, (heapBytes() - before) / (touched - 2_000)).toFixed(0)} bytes each, ${touched} contexts touched by a process that may hold 1,000`,
    );
  } finally {
    await engine.close();
  }
}

async function touch(engine: BenchEngine, from: number, to: number): Promise<void> {
  for (let at = from; at < to; at += 256)
    await Promise.all(Array.from({ length: Math.min(256, to - at) }, (_, index) => append(engine, at + index)));
}

function heapBytes(): number {
  global.gc?.();
  return process.memoryUsage().heapUsed;
}

async function p50Ms(engine: BenchEngine, inFlight: number, forMs: number): Promise<number> {
  return (await runLoad({ inFlight, durationMs: forMs, warmUpMs: 300, call: (index) => append(engine, index % hot) })).p50Ms;
}

function append({ appender }: BenchEngine, at: number): Promise<unknown> {
  return appender.append({
    address: { owner, path: pathOf(at) },
    appendId: uuidv7(),
    events: [
      {
        type: "example.com/bench",
        payload,
        metadata: null,
        idempotencyKey: null,
        expectedOffset: null,
        processor: null,
        formatVersion: 0,
        isEphemeral: false,
      },
    ],
    writer: { kind: "service", origin: null, cause, principal: null, isPlatform: true, owner: null, lease: null },
    traceparent: null,
  });
}

function pathOf(at: number): string {
  return `/scale/${at}`;
}
