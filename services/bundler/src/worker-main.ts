/** The build worker: runs one untrusted job per child process. It holds no credential and calls nobody. */
import { BuildWorkerServiceService } from "@iterate-platform/proto/iterate/bundler/v1/build";
import { runService } from "@iterate-platform/service/service";
import { buildWorkerHandlers, buildWorkerRules } from "./api/build-worker-service.js";
import { buildLimits } from "./build/contract.js";
import { runBuildJob } from "./build/job-process.js";
import { JobQueue } from "./build/job-queue.js";
import { loadPlatformModules, toolchainDigest } from "./build/platform-modules.js";
import { workerConfig } from "./worker-config.js";

await runService({
  name: "build-worker",
  config: workerConfig,
  main: async ({ config, grpc, metrics }) => {
    const platform = await loadPlatformModules();
    const queue = new JobQueue({ maxRunning: config.jobs, maxWaiting: 8 * config.jobs });
    const options = { platform, buildLimits, jobLimits: { cpuS: config.jobCpuS, memoryMiB: config.jobMemoryMiB } };
    grpc.add(
      BuildWorkerServiceService,
      buildWorkerHandlers({
        queue,
        limits: buildLimits,
        toolchain: toolchainDigest(platform),
        run: (job) => runBuildJob(job, options),
      }),
      buildWorkerRules,
    );
    metrics.observedGauge("iterate.build.jobs", { description: "Builds by state." }, () => [
      { value: queue.running, labels: { state: "running" } },
      { value: queue.waiting, labels: { state: "waiting" } },
    ]);
  },
});
