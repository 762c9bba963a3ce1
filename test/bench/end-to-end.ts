/**
 * The whole way, on the whole platform: an event appended by a client, delivered to project code in its isolate, and what that code
 * emitted back at the client; as ratios to one bare insert of the same server and to a unary gRPC call of the same platform.
 *
 * `node --conditions=iterate-source --import tsx test/bench/end-to-end.ts [--idle 300] [--events 50000]`
 */
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { credentials, Metadata } from "@grpc/grpc-js";
import { HealthClient } from "@iterate-platform/proto/grpc/health/v1/health";
import { pushFolder, startStack, type Stack } from "@iterate-platform/local";
import { eventually } from "@iterate-platform/testing";
import { connectIterate, type EventsFrame, type StreamEvent } from "iterate/node";
import { bareInsertP50Ms, makeDatabase } from "../../services/context/bench/database.js";

const { values: options } = parseArgs({
  options: { idle: { type: "string", default: "300" }, events: { type: "string", default: "50000" } },
});
const idleRounds = Number(options.idle);
const eventCount = Number(options.events);

const tick = "events.example.com/bench/tick";
const tock = "events.example.com/bench/tock";
const payload = { text: "x".repeat(188) };
const atOnce = 8;
const perAppend = 500;
const idleGapMs = 75;

const stack = await startStack({ state: "temporary", portBase: "auto" });
try {
  await measure(stack);
} finally {
  await stack.stop();
}

async function measure(stack: Stack): Promise<void> {
  const baseUrl = `http://localhost:${stack.ports.of("public-http")}`;
  using connection = await connectIterate({ baseUrl, auth: { type: "admin-secret", secret: stack.adminToken } });
  const info = await connection.session.projects.create({ slug: "bench" });
  const project = await connection.session.projects.get("bench");
  const { oid } = await pushFolder(join(import.meta.dirname, "projects/ticks"), info.gitUrl, stack.adminToken, "Time it");
  await project.waitForEvent({
    type: "events.iterate.com/project/worker-updated",
    payload: { commitOid: oid },
    afterOffset: 0,
    timeoutMs: 60_000,
  });

  const database = await makeDatabase(stack.databaseUrl("admin"));
  const bareMs = await bareInsertP50Ms(database.url, JSON.stringify(payload), "{}", 2_000);
  await database.drop();
  const unaryMs = await unaryP50Ms(stack);
  console.log(`bare insert p50 ${bareMs.toFixed(2)} ms, unary gRPC call p50 ${unaryMs.toFixed(2)} ms`);

  const echo = await project.cd("/echo");
  const roundTrips = await answered(echo);
  const p50 = percentile(roundTrips, 0.5);
  console.log(
    `idle: append → reduce → processEvent → emitted event at a subscriber: p50 ${p50.toFixed(1)} ms, p99 ${percentile(roundTrips, 0.99).toFixed(1)} ms (must ≤ 15, ≤ 50)`,
  );
  console.log(`  p50 ÷ bare insert ${(p50 / bareMs).toFixed(1)}, ÷ unary gRPC call ${(p50 / unaryMs).toFixed(1)}`);

  const tenth = await project.cd("/tenth");
  const startedAt = performance.now();
  let next = 0;
  let last = 0;
  const worker = async (): Promise<void> => {
    while (next < eventCount) {
      next += perAppend;
      const stored = await tenth.append(...Array.from({ length: perAppend }, () => ({ type: tick, payload })));
      last = Math.max(last, stored.at(-1)?.offset ?? 0);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  const appendedMs = performance.now() - startedAt;
  await eventually(
    async () => {
      const snapshot = (await (await fetch(info.url)).json()) as { offset: number };
      return snapshot.offset >= last;
    },
    { timeoutMs: 300_000, intervalMs: 50 },
  );
  const seconds = (performance.now() - startedAt) / 1000;
  console.log(
    `sustained: ${eventCount} events through an isolated processor, one emitted for every tenth: ${Math.round(eventCount / seconds)}/s end to end (must ≥ 5,000), appended at ${Math.round(eventCount / (appendedMs / 1000))}/s`,
  );
}

interface EchoContext {
  subscribe(args: { types: string[]; onEvents: (frame: EventsFrame) => void }): PromiseLike<Disposable>;
  append(event: { type: string; payload: unknown }): PromiseLike<StreamEvent[]>;
}

/** Milliseconds from each append to its answer's arrival, one at a time. */
async function answered(context: unknown): Promise<number[]> {
  const echo = context as EchoContext;
  let arrived: (event: StreamEvent) => void = () => undefined;
  using _subscription = await echo.subscribe({
    types: [tock],
    onEvents: (frame) => frame.events.forEach((event) => arrived(event)),
  });
  const times: number[] = [];
  for (let round = 0; round < idleRounds + 20; round += 1) {
    // A subscription at rest: one that is busy is paced to 20 transactions a second, and its batches grow instead.
    await pause(idleGapMs);
    const from = performance.now();
    const arrival = new Promise<void>((resolve) => (arrived = () => resolve()));
    await echo.append({ type: tick, payload });
    await arrival;
    // The first rounds start the isolate and warm every process on the way.
    if (round >= 20) times.push(performance.now() - from);
  }
  return times;
}

async function unaryP50Ms(stack: Stack): Promise<number> {
  const health = new HealthClient(`127.0.0.1:${stack.ports.of("public-grpc")}`, credentials.createInsecure());
  const times: number[] = [];
  for (let round = 0; round < 500; round += 1) {
    const from = performance.now();
    await new Promise<void>((resolve, reject) => {
      health.check({ service: "" }, new Metadata(), (error) => (error === null ? resolve() : reject(error)));
    });
    if (round >= 100) times.push(performance.now() - from);
  }
  health.close();
  return percentile(times, 0.5);
}

function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
}
