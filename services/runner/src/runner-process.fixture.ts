/** A runner process of a test: the service as it is, with the test's processors beside the platform's own. */
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { createPool } from "@iterate-platform/service/postgres";
import { runService } from "@iterate-platform/service/service";
import { runnerConfig } from "./config.js";
import { Counter } from "./runner.fixture.js";
import { composeRunner } from "./runner.js";

await runService({
  name: "runner",
  config: runnerConfig,
  postgres: { max: 6 },
  nats: true,
  main: (runtime) => {
    const { config, log, trust, pool, broker } = runtime;
    const leaseDb = createPool({ url: config.databaseUrl, applicationName: "leases", max: 2 });
    const runner = composeRunner({
      config,
      pod: uuidv7(),
      db: pool,
      leaseDb,
      broker,
      trust,
      log,
      clock: { nowMs: Date.now, monotonicMs: () => performance.now(), random: Math.random },
      newUuid: uuidv7,
      newInvocationId: () => newId("inv"),
      processors: { counter: { isHostedIn: () => true, checkpointMs: 60_000, create: () => new Counter() } },
    });
    runtime.onStop("leases pool", () => leaseDb.end(0));
    runtime.onStop("runner", () => runner.stop());
    runner.start();
  },
});
