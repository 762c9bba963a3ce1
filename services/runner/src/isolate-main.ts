/**
 * `runner-isolate`: runs bundles of untrusted code for the runner. It holds no database, broker or service credential and dials nobody;
 * callers are proven by the trusted keys alone.
 */
import { defineConfig, integer, listen, oneOf } from "@iterate-platform/service/config";
import { runService, type Runtime } from "@iterate-platform/service/service";
import { readDescriptorSet } from "@iterate-platform/proto/descriptor-set";
import { codedError } from "iterate/lib";
import { isolateLimits } from "./isolate/limits.js";
import { isolatePrograms } from "./isolate/platform.js";
import { removeAbandonedFolders } from "./isolate/process-folder.js";
import { poolLimits } from "./isolate/process-pool.js";
import { isolateRole } from "./isolate/role.js";

const config = defineConfig({
  httpListen: listen("HTTP_LISTEN", {
    description: "Where the bodies of HTTP exchanges are taken from the runner.",
    default: "127.0.0.1:0",
  }),
  tenancy: oneOf("ISOLATE_TENANCY", ["project", "shared"], {
    description: "`project`: this process serves the first project that calls and no other. `shared` is for one machine.",
    default: "project",
  }),
  processes: integer(
    "ISOLATE_PROCESSES",
    { min: 1, max: 1_000 },
    { description: "Most isolate processes at a time.", default: String(poolLimits.processes) },
  ),
  memoryMiB: integer(
    "ISOLATE_MEMORY_MIB",
    { min: 128, max: 1_048_576 },
    {
      description: "Resident memory of all isolate processes above which idle ones end and new ones wait, MiB.",
      default: String(poolLimits.memoryBytes / 2 ** 20),
    },
  ),
  idleMs: integer(
    "ISOLATE_IDLE_MS",
    { min: 1_000, max: 3_600_000 },
    { description: "An unused isolate process ends after this long, milliseconds.", default: String(poolLimits.idleMs) },
  ),
});

/** Variables that hold, or lead to, something usable. A process beside untrusted code is not started with any of them. */
const refusedVariables = [
  "ITERATE_SERVICE_KEY_FILE",
  "DATABASE_URL",
  "DATABASE_DIRECT_URL",
  "CONTEXT_SHARDS",
  "NATS_URL",
  "NATS_USER",
  "NATS_PASSWORD",
  "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/** A pod that has served its project and has run nothing for this long ends, so that another project may have its place. */
const vacantMs = 600_000;
const checkMs = 5_000;

await runService({ name: "runner-isolate", config, grpc: { descriptorSet: readDescriptorSet() }, main });

async function main(runtime: Runtime<typeof config.spec>): Promise<void> {
  const { tenancy, processes, memoryMiB, idleMs, httpListen } = runtime.config;
  const held = refusedVariables.filter((name) => (process.env[name] ?? "") !== "");
  if (held.length > 0)
    throw codedError(
      "INVALID_INPUT",
      `runner-isolate runs beside untrusted code and must hold nothing usable: unset ${held.join(", ")}.`,
    );
  if (tenancy === "shared")
    runtime.log.warn("ISOLATE_TENANCY is shared: code of all projects runs beside each other; use it on one machine only");
  await removeAbandonedFolders();

  const starts = runtime.metrics.histogram("iterate.isolate.start.duration", {
    description: "Time from spawn to a listening isolate.",
    unit: "s",
  });
  const { pool, http } = isolateRole({
    grpc: runtime.grpc,
    httpListen,
    trust: runtime.trust,
    log: runtime.log,
    limits: isolateLimits,
    pool: { ...poolLimits, processes, memoryBytes: memoryMiB * 2 ** 20, idleMs },
    tenancy,
    programs: isolatePrograms(),
    onStart: (_isolate, ms) => starts.record(ms / 1_000),
  });
  runtime.metrics.observedGauge(
    "iterate.isolate.processes",
    { description: "Isolate processes alive or starting." },
    () => pool.size,
  );
  runtime.addListener("http", http);
  runtime.onStop("isolates", () => pool.end());

  const progress = runtime.readiness.progress("isolates", 6 * checkMs);
  const check = setInterval(() => {
    progress.tick();
    if (tenancy === "project" && pool.vacantMs >= vacantMs) {
      runtime.log.info("this pod has been vacant and ends");
      process.kill(process.pid, "SIGTERM");
    }
  }, checkMs);
  progress.tick();
  runtime.onStop("isolates check", () => clearInterval(check));
}
