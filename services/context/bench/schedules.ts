/**
 * What a backlog of schedules costs those who append meanwhile: due rows are fired by one process, which takes appends to other contexts
 * all the while, against the same appends with nothing due. Run by `make bench`, compiled: <admin url> [due rows] [seconds].
 */
import { uuidv7 } from "@iterate-platform/service/ids";
import { itx } from "iterate/events";
import type { AppendEvent } from "../src/log/contract.js";
import { DueBell } from "../src/schedules/due-bell.js";
import { ScheduleFirer } from "../src/schedules/firer.js";
import { runSchedules } from "../src/schedules/run.js";
import { DueSweeper } from "../src/schedules/sweeper.js";
import { realTimers } from "../src/timers.js";
import { makeDatabase } from "./database.js";
import { startEngine, type BenchEngine } from "./engine.js";
import { runLoad, type LoadResult } from "./load.js";

const [adminUrl, count = "100000", seconds = "8"] = process.argv.slice(2) as [string, string?, string?];
const rows = Number(count);
const perContext = 10;
const owner = "prj_00000000000000000000000000";
const cause = { chain: "2030-01-01T00:00:00.000Z with service ~12345678", depth: 0 };
const payload = Buffer.from(JSON.stringify({ text: "x".repeat(188) }));
const inFlight = 64;

const database = await makeDatabase(adminUrl);
const engine = startEngine(database.url);
const { store, cache, appender } = engine;
const refresh = (contextIds: readonly number[]) => cache.refresh(contextIds);
const firer = new ScheduleFirer({
  store: store.schedules,
  refresh,
  appender,
  failpoint: () => undefined,
  onFailure: (_, error) => console.error(error),
});
const stop = new AbortController();
try {
  await fill();
  await load(1);
  const before = await load(Number(seconds));
  const startedAt = performance.now();
  const firing = runSchedules({
    firer,
    sweeper: new DueSweeper({ store: store.schedules, reducerVersion: cache.reducerVersion, refresh }),
    bell: new DueBell(),
    sweepMs: 5_000,
    timers: realTimers,
    stopping: stop.signal,
    onRound: () => undefined,
    onFailure: console.error,
  });
  const during: LoadResult[] = [];
  while (firer.counts.fired < rows) during.push(await load(Math.min(2, Number(seconds))));
  const drainSeconds = (performance.now() - startedAt) / 1_000;
  stop.abort();
  await firing;
  const after = await load(Number(seconds));
  // The last piece ends with nothing due.
  const p99Ms = meanP99(during.slice(0, Math.max(1, during.length - 1)));
  const quietMs = (before.p99Ms + after.p99Ms) / 2;
  console.log(
    `${rows} due rows drained in ${drainSeconds.toFixed(1)} s, ${(rows / drainSeconds).toFixed(0)}/s, with ${inFlight} appends in flight`,
  );
  console.log(
    `append p99 while they drain ÷ without (must ≤ 2): ${(p99Ms / quietMs).toFixed(2)} (${p99Ms.toFixed(1)} ms; ${quietMs.toFixed(1)} ms)`,
  );
} finally {
  stop.abort();
  await engine.close();
  await database.drop();
}

/** One-time schedules that are due at once, which nobody fires yet. */
async function fill(): Promise<void> {
  const contexts = Math.ceil(rows / perContext);
  for (let from = 0; from < contexts; from += 256)
    await Promise.all(
      Array.from({ length: Math.min(256, contexts - from) }, (_, n) =>
        append(
          engine,
          `/due/${from + n}`,
          Array.from({ length: Math.min(perContext, rows - (from + n) * perContext) }, (_, at) => scheduled(at)),
        ),
      ),
    );
}

function scheduled(at: number): AppendEvent {
  const definition = { key: `k${at}`, when: { afterMs: 0 }, events: [{ type: "example.com/due", payload: { at } }] };
  return event(itx.scheduleSet.type, Buffer.from(JSON.stringify(definition)));
}

function load(forSeconds: number): Promise<LoadResult> {
  return runLoad({
    inFlight,
    durationMs: forSeconds * 1_000,
    warmUpMs: 0,
    call: (index) => append(engine, `/bench/${index % 256}`, [event("example.com/bench", payload)]),
  });
}

/** Of pieces of one load the mean of their 99th percentiles, so that one piece does not decide. */
function meanP99(pieces: readonly LoadResult[]): number {
  return pieces.reduce((sum, { p99Ms }) => sum + p99Ms, 0) / pieces.length;
}

function append({ appender }: BenchEngine, path: string, events: readonly AppendEvent[]): Promise<unknown> {
  return appender.append({
    address: { owner, path },
    appendId: uuidv7(),
    events,
    writer: { kind: "service", origin: null, cause, principal: null, isPlatform: true, owner: null, lease: null },
    traceparent: null,
  });
}

function event(type: string, payload: Buffer): AppendEvent {
  return {
    type,
    payload,
    metadata: null,
    idempotencyKey: null,
    expectedOffset: null,
    processor: null,
    formatVersion: 0,
    isEphemeral: false,
  };
}
