/**
 * Appends as ratios of one run: to raw inserts of the same rows (4 connections × 500), to a gRPC echo of the same request, to a bare
 * insert. Run by `make bench`, compiled: <admin url of a Postgres with fsync> [rounds] [seconds].
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { AppendRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { EventInput } from "@iterate-platform/proto/iterate/type/v1/event";
import { createClient } from "@iterate-platform/service/grpc-client";
import { uuidv7 } from "@iterate-platform/service/ids";
import { generateKeys } from "@iterate-platform/service/keys";
import { Trust } from "@iterate-platform/service/trust";
import { DatabaseCpu, processCpuUs } from "./cpu.js";
import { bareInsertP50Ms, makeDatabase, rawRowsPerSecond } from "./database.js";
import { startEngine } from "./engine.js";
import { runLoad, type LoadResult } from "./load.js";
import { ContextServiceClient, StreamAppender } from "./stream-client.js";

const adminUrl = process.argv[2]!;
const rounds = Number(process.argv[3] ?? 3);
const durationMs = Number(process.argv[4] ?? 2) * 1000;
const owner = "prj_00000000000000000000000000";
const payload = JSON.stringify({ text: "x".repeat(188) });
const bytes = Buffer.from(payload);
const cause = { chain: "2030-01-01T00:00:00.000Z with service ~12345678", depth: 0 };
const source = JSON.stringify({ origin: "/bench/123", cause, platform: true });

const keys = await mkdtemp(join(tmpdir(), "bench-keys-"));
const files = await generateKeys({ directory: keys, services: ["ingress", "context"] });
const trust = await Trust.load({ service: "ingress", keyFile: files.keyFile("ingress"), trustedKeysFile: files.trustedKeysFile });
const database = await makeDatabase(adminUrl);
const child = spawn(
  process.execPath,
  [
    ...process.execArgv,
    "--max-semi-space-size=64",
    fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./server.ts" : "./server.js", import.meta.url)),
    database.url,
    keys,
  ],
  { stdio: ["ignore", "pipe", "inherit"] },
);
const [line] = (await once(createInterface(child.stdout), "line")) as [string];
const ports = JSON.parse(line) as { append: number; echo: number };
const connect = (port: number) => createClient(ContextServiceClient, `http://127.0.0.1:${port}`, { trust, audience: "context" });
const client = connect(ports.append);
const echo = connect(ports.echo);
const engine = startEngine(database.url);
const databaseCpu = await DatabaseCpu.of(adminUrl, database.url);

let serial = 0;
const request = (index: number, contexts: number, hasKey: boolean): AppendRequest => ({
  context: { owner, path: `/bench/${index % contexts}` },
  appendId: uuidv7(),
  events: [EventInput.fromPartial({ type: "example.com/bench", payload: bytes, idempotencyKey: hasKey ? `key-${serial++}` : "" })],
});
const inProcess = (contexts: number, hasKey: boolean) => (index: number) =>
  engine.appender.append({
    address: { owner, path: `/memory/${index % contexts}` },
    appendId: uuidv7(),
    events: [
      {
        type: "example.com/bench",
        payload: bytes,
        metadata: null,
        idempotencyKey: hasKey ? `key-${serial++}` : null,
        expectedOffset: null,
        processor: null,
        formatVersion: 0,
        isEphemeral: false,
      },
    ],
    writer: { kind: "service", origin: null, cause, principal: null, isPlatform: true, owner: null, lease: null },
    traceparent: null,
  });
const load = (inFlight: number, call: (index: number) => Promise<unknown>): Promise<LoadResult> =>
  runLoad({ inFlight, durationMs, warmUpMs: 400, call });
const stream = async (inFlight: number, contexts: number, { isCoalescing = true, hasKey = false } = {}): Promise<LoadResult> => {
  const appender = new StreamAppender(client, isCoalescing);
  const result = await load(inFlight, (index) => appender.append(request(index, contexts, hasKey)));
  appender.end();
  return result;
};

/** CPU microseconds for each append, by who spends them: database, server, this process. */
const costs = new Map<string, [number, number, number][]>();
async function costed<Result>(name: string, countOf: (result: Result) => number, work: () => Promise<Result>): Promise<Result> {
  const before = [await databaseCpu.us(), processCpuUs(child.pid!), processCpuUs(process.pid)];
  const result = await work();
  const after = [await databaseCpu.us(), processCpuUs(child.pid!), processCpuUs(process.pid)];
  const spent = after.map((us, index) => (us - before[index]!) / countOf(result)) as [number, number, number];
  costs.set(name, [...(costs.get(name) ?? []), spent]);
  return result;
}
const measured = (name: string, work: () => Promise<LoadResult>): Promise<LoadResult> => costed(name, ({ count }) => count, work);

const figures = new Map<string, number[]>();
const note = (name: string, value: number): void => void figures.set(name, [...(figures.get(name) ?? []), value]);

await runLoad({ inFlight: 64, durationMs: 500, warmUpMs: 500, call: inProcess(256, false) });
await runLoad({ inFlight: 64, durationMs: 500, warmUpMs: 500, call: (index) => client.append(request(index, 256, true)) });
for (let round = 1; round <= rounds; round += 1) {
  const raw = await costed(
    "raw",
    (perSecond) => (perSecond * durationMs) / 1000,
    () => rawRowsPerSecond({ url: database.url, contexts: 256, payload, source, hasKeys: false, durationMs }),
  );
  const bare = await bareInsertP50Ms(database.url, payload, source, durationMs / 2);
  const echoed = await measured("echoed", () => load(64, (index) => echo.append(request(index, 256, true))));
  const unary = await measured("unary", () => load(64, (index) => client.append(request(index, 256, true))));
  const coalesced = await measured("coalesced", () => stream(1_024, 256));
  const keyed = await measured("keyed", () => stream(1_024, 256, { hasKey: true }));
  const single = await measured("single", () => stream(1_024, 256, { isCoalescing: false }));
  const hot = await measured("hot", () => stream(64, 1));
  const wide = await measured("wide", () => stream(64, 256));
  const memory = await measured("memory", () => load(1_024, inProcess(256, false)));
  const idleUnary = await measured("idleUnary", () => load(1, (index) => client.append(request(index, 256, false))));
  const idleStream = await measured("idleStream", () => stream(1, 256));
  const idleMemory = await measured("idleMemory", () => load(1, inProcess(256, false)));
  console.log(
    `round ${round}: raw ${kilo(raw)}, bare insert p50 ${bare.toFixed(2)} ms, load ${loadavg()[0]!.toFixed(1)} on ${cpus().length} cores`,
  );
  note("AppendStream coalesced, 1,024 ÷ raw (must 0.45)", coalesced.perSecond / raw);
  note("the same with keys ÷ raw (must 0.30)", keyed.perSecond / raw);
  note("AppendStream one per message ÷ raw (must 0.15)", single.perSecond / raw);
  note("in process, 1,024 ÷ raw", memory.perSecond / raw);
  note("unary, 64, keys ÷ echo (must 0.8)", unary.perSecond / echoed.perSecond);
  note("one hot context, 64 ÷ 256 contexts (must 0.6)", hot.perSecond / wide.perSecond);
  note("idle unary p50 ÷ bare (must ≤ 3.0)", idleUnary.p50Ms / bare);
  note("idle stream p50 ÷ bare (must ≤ 2.0)", idleStream.p50Ms / bare);
  note("idle in process p50 ÷ bare", idleMemory.p50Ms / bare);
  for (const [name, result] of Object.entries({
    echoed,
    unary,
    coalesced,
    keyed,
    single,
    hot,
    wide,
    memory,
    idleUnary,
    idleStream,
    idleMemory,
  })) {
    console.log(
      `  ${name.padEnd(12)} ${kilo(result.perSecond).padStart(8)}  p50 ${result.p50Ms.toFixed(2)}  p99 ${result.p99Ms.toFixed(2)} ms`,
    );
  }
}
for (const [name, values] of figures) {
  const sorted = [...values].sort((one, other) => one - other);
  console.log(
    `${name.padEnd(52)} ${sorted.map((value) => value.toFixed(2)).join(" / ")}  median ${sorted[Math.floor(sorted.length / 2)]!.toFixed(2)}`,
  );
}

console.log("CPU µs for each append (median): database, server, client; raw's sum ÷ this sum, which foreign load does not bend");
const medianCost = (name: string): number[] => {
  const values = costs.get(name)!;
  return [0, 1, 2].map(
    (part) => values.map((value) => value[part]!).sort((one, other) => one - other)[Math.floor(values.length / 2)]!,
  );
};
const sum = (parts: readonly number[]): number => parts.reduce((total, part) => total + part, 0);
for (const name of costs.keys()) {
  const parts = medianCost(name);
  console.log(
    `  ${name.padEnd(12)} ${parts.map((us) => us.toFixed(0).padStart(5)).join(" ")}  sum ${sum(parts).toFixed(0).padStart(5)}  ${(sum(medianCost("raw")) / sum(parts)).toFixed(2)}`,
  );
}

await databaseCpu.close();
client.close();
echo.close();
child.kill();
await engine.close();
await database.drop();

function kilo(perSecond: number): string {
  return `${(perSecond / 1000).toFixed(1)}k/s`;
}
