/**
 * How many spans a second the service takes and stores, on one machine with its database: the service as a process of its own, a real
 * Postgres with fsync, senders over OTLP/gRPC with as many exports in flight as exporters would have. Prints one line of JSON a second
 * and a summary; ends with 1 when a span was lost or the rate was below the target.
 *
 *   node --conditions=iterate-source --import tsx services/telemetry/bench/ingest.ts [seconds] [target per second]
 */
import { randomFillSync } from "node:crypto";
import { fileURLToPath } from "node:url";
import { ChannelCredentials, Client, status, type ServiceError } from "@grpc/grpc-js";
import { TraceServiceService } from "@iterate-platform/proto/opentelemetry/proto/collector/trace/v1/trace_service";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool } from "@iterate-platform/service/postgres";
import { durableSettings, startPrivatePostgres } from "@iterate-platform/testing";
import { span, traceRequest } from "../src/otlp/export.fixture.js";
import { Deployment, TelemetryProcess } from "../test/telemetry-process.js";

const seconds = Number(process.argv[2] ?? 20);
const target = Number(process.argv[3] ?? 20_000);
const spansPerExport = 512;
const exportsInFlight = 8;

/** What instrumentation of gRPC and SQL makes of a call: eight attributes, about 430 bytes. */
const sketch = (traceId: string) =>
  span({
    traceId,
    spanId: "a1".repeat(8),
    parentSpanId: "b2".repeat(8),
    name: "iterate.context.v1.ContextService/Append",
    startMs: Date.now(),
    attributes: {
      owner: "prj_01hzzzzzzzzzzzzzzzzzzzzzzz",
      "rpc.system": "grpc",
      "rpc.service": "iterate.context.v1.ContextService",
      "rpc.method": "Append",
      "rpc.grpc.status_code": 0n,
      "server.address": "127.0.0.1",
      "server.port": 7410n,
      "db.query.text": 'select * from event where context_id = $1 and "offset" > $2 order by "offset" limit $3',
    },
  });

/** A request whose ids are made anew for every export, so that senders cost next to nothing. */
class Template {
  readonly #body: Buffer;
  readonly #ids: number[] = [];

  constructor() {
    const traceId = "c3".repeat(16);
    this.#body = traceRequest(
      "bench",
      Array.from({ length: spansPerExport }, () => sketch(traceId)),
    );
    const mark = Buffer.concat([Buffer.from([0x0a, 16]), Buffer.from(traceId, "hex")]);
    for (let at = this.#body.indexOf(mark); at !== -1; at = this.#body.indexOf(mark, at + 1)) this.#ids.push(at + 2);
  }

  next(): Buffer {
    const body = Buffer.from(this.#body);
    for (const at of this.#ids) randomFillSync(body, at, 16);
    return body;
  }
}

const postgres = await startPrivatePostgres({ settings: durableSettings });
const database = await postgres.createDatabase();
await migrate({ url: database.url, dir: fileURLToPath(new URL("../migrations", import.meta.url)) });
const deployment = await Deployment.make();
const telemetry = await TelemetryProcess.start({ deployment, databaseUrl: database.url });
const client = new Client(telemetry.otlpGrpcUrl.replace("http://", ""), ChannelCredentials.createInsecure());
const template = new Template();
const { path, responseDeserialize } = TraceServiceService.export;

let taken = 0;
let refused = 0;
const endsAt = performance.now() + seconds * 1_000;
const send = (): Promise<void> =>
  new Promise((resolve, reject) =>
    client.makeUnaryRequest(
      path,
      (bytes: Buffer) => bytes,
      responseDeserialize,
      template.next(),
      (error: ServiceError | null) => {
        if (error === null) taken += spansPerExport;
        else if (error.code === status.RESOURCE_EXHAUSTED) refused += 1;
        else return reject(error);
        resolve();
      },
    ),
  );
/** A refused sender waits as it is told. */
async function sender(): Promise<void> {
  while (performance.now() < endsAt) {
    const before = refused;
    await send();
    if (refused > before) await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

const cpuSeconds = async (): Promise<number> =>
  (await telemetry.metric('process_cpu_time_seconds_total{mode="user"')) +
  (await telemetry.metric('process_cpu_time_seconds_total{mode="system"'));
const cpuBefore = await cpuSeconds();

const storedName = 'iterate_telemetry_items_stored_total{signal="traces"';
const startedAt = performance.now();
const report = setInterval(() => {
  void Promise.all([
    telemetry.metric(storedName),
    telemetry.metric('iterate_telemetry_queue_bytes{signal="traces"'),
    telemetry.metric('process_memory_usage_bytes{kind="rss"'),
  ]).then(([stored, queueBytes, rss]) =>
    console.log(
      JSON.stringify({
        s: Math.round((performance.now() - startedAt) / 1_000),
        taken,
        stored,
        queueBytes,
        rssMiB: Math.round(rss / 1_048_576),
        refused,
      }),
    ),
  );
}, 1_000);
await Promise.all(Array.from({ length: exportsInFlight }, sender));
const tookS = (performance.now() - startedAt) / 1_000;
await telemetry.settled();
const storedAfterS = (performance.now() - startedAt) / 1_000;
clearInterval(report);
const cpuUsed = (await cpuSeconds()) - cpuBefore;
const pool = createPool({ url: database.url, applicationName: "bench", max: 1, statementTimeoutMs: 60_000 });
const rows = Number((await pool.query<{ count: string }>("select count(*) from span")).rows[0]!.count);
await pool.end();
client.close();
await telemetry.stop();
await postgres.stop();
deployment.remove();

const storedPerSecond = Math.round(rows / storedAfterS);
console.log(
  JSON.stringify({
    takenPerSecond: Math.round(taken / tookS),
    storedPerSecond,
    lost: taken - rows,
    refused,
    serviceCpuUsPerSpan: Math.round((cpuUsed / rows) * 1e7) / 10,
  }),
);
process.exit(taken === rows && storedPerSecond >= target ? 0 : 1);
