/** Composes the runner: leases, intake, delivery, processors, project pages and the service other services ask. */
import { hostname } from "node:os";
import { CapabilityServiceService } from "@iterate-platform/proto/iterate/capability/v1/capability";
import { RunnerServiceService } from "@iterate-platform/proto/iterate/runner/v1/runner";
import { readDescriptorSet } from "@iterate-platform/proto/descriptor-set";
import { capabilityHandlers, capabilityRules } from "@iterate-platform/service/capability-service";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { createPool } from "@iterate-platform/service/postgres";
import { runService } from "@iterate-platform/service/service";
import { fetchListener } from "./api/fetch-listener.js";
import { runnerServiceHandlers, runnerServiceRules } from "./api/runner-service.js";
import { facetsRoot } from "./capability/facets.js";
import { runnerConfig } from "./config.js";
import { composeRunner } from "./runner.js";

/** Connections of the leases alone, beside the pool's: they must not wait behind deliveries. */
const leaseConnections = 2;

await runService({
  name: "runner",
  config: runnerConfig,
  postgres: { max: 6 },
  nats: true,
  grpc: { descriptorSet: readDescriptorSet() },
  migrationsDir: new URL("../migrations", import.meta.url),
  main: (runtime) => {
    const { config, log, trust, metrics, readiness } = runtime;
    const leasePool = createPool({
      url: config.databaseDirectUrl ?? config.databaseUrl,
      applicationName: "iterate-runner-leases",
      max: leaseConnections,
    });
    const renewed = readiness.progress("leases", 3 * config.leaseTtlMs);
    const loops = {
      watermark: readiness.progress("watermarks", 60_000),
      due: readiness.progress("due deliveries", 60_000),
      floors: readiness.progress("floors", 60_000 + config.floorsMs),
    };
    const attempts = metrics.histogram("iterate.delivery.attempt.duration", {
      description: "Duration of delivery attempts by outcome.",
      unit: "s",
    });
    const delivered = metrics.counter("iterate.delivery.events", {
      description: "Events handed to processors by outcome of the attempt.",
    });

    const runner = composeRunner({
      config,
      pod: `${hostname()}-${uuidv7()}`,
      db: runtime.pool,
      leaseDb: leasePool,
      broker: runtime.broker,
      trust,
      log,
      clock: { nowMs: Date.now, monotonicMs: () => performance.now(), random: Math.random },
      newUuid: uuidv7,
      newInvocationId: () => newId("inv"),
      onRenewed: () => renewed.tick(),
      onTick: (loop) => loops[loop].tick(),
      observe: (outcome, events, ms) => {
        attempts.record(ms / 1_000, { outcome });
        delivered.add(events, { outcome });
      },
    });
    metrics.observedGauge(
      "iterate.runner.partitions",
      { description: "Partitions this pod works on." },
      () => runner.intake.partitions,
    );
    metrics.observedGauge("iterate.delivery.turns", { description: "Batches in flight, and those that wait for a turn." }, () =>
      Object.entries(runner.turns.counts).map(([state, value]) => ({ value, labels: { state } })),
    );

    runtime.grpc.add(RunnerServiceService, runnerServiceHandlers(runtime.pool, runner.snapshots), runnerServiceRules);
    runtime.grpc.add(CapabilityServiceService, capabilityHandlers([facetsRoot(runner.snapshots)]), capabilityRules);
    runtime.addListener("http", fetchListener(runner.pages, { listen: config.httpListen, log, trust }));
    runtime.onStop("leases pool", () => leasePool.end());
    runtime.onStop("runner", () => runner.stop());
    runner.start();
  },
});
