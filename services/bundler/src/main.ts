/** The bundler: repositories and builds. Composes the service and nothing else. */
import { BuildServiceService } from "@iterate-platform/proto/iterate/bundler/v1/build";
import { RepoServiceService } from "@iterate-platform/proto/iterate/bundler/v1/repo";
import { readDescriptorSet } from "@iterate-platform/proto/descriptor-set";
import { createHttpServer, httpAuth } from "@iterate-platform/service/http-server";
import { runService } from "@iterate-platform/service/service";
import { buildHandlers, buildRules } from "./api/build-service.js";
import { GitHttp, gitPolicy } from "./api/git-http.js";
import { repoHandlers, repoRules } from "./api/repo-service.js";
import { BlobStore } from "./blob/blob-store.js";
import { Builder } from "./build/builder.js";
import { BuildStore } from "./build/build-store.js";
import { buildLimits } from "./build/contract.js";
import { JobQueue } from "./build/job-queue.js";
import { loadPlatformModules, toolchainDigest } from "./build/platform-modules.js";
import { connectBuildWorker } from "./build/worker-client.js";
import { bundlerConfig } from "./config.js";
import { startHousekeeping } from "./housekeeping.js";
import { Acceptance } from "./repo/acceptance.js";
import type { BareRepo } from "./repo/bare-repo.js";
import { Committer } from "./repo/commit.js";
import { Compactor } from "./repo/compaction.js";
import { connectFactLog } from "./repo/context-log.js";
import { repoLimits, type RepoLimits } from "./repo/contract.js";
import { Git } from "./repo/git.js";
import { Outbox } from "./repo/outbox.js";
import { Reader } from "./repo/reader.js";
import { installReceiveHook } from "./repo/receive-hook.js";
import { RepoCache } from "./repo/repo-cache.js";
import { openReposDir } from "./repo/repos-dir.js";
import { SmartHttp } from "./repo/smart-http.js";

const MiB = 1024 * 1024;

/** CPU of one git process, seconds: unpacking the largest push takes a few. */
const gitCpuS = 120;

/** The outbox looks at its rows at least every second; a minute without a look means that it is stuck. */
const outboxBoundMs = 60_000;

/** Every pack costs each look-up of an object and each opening; folding a repository costs a second. */
const maxPacks = 64;

await runService({
  name: "bundler",
  config: bundlerConfig,
  postgres: { max: 4 },
  migrationsDir: new URL("../migrations", import.meta.url),
  grpc: { descriptorSet: readDescriptorSet() },
  main: async (runtime) => {
    const { config, pool: db, log, trust } = runtime;
    const limits: RepoLimits = {
      ...repoLimits,
      maxPackBytes: config.maxPackMiB * MiB,
      maxFileBytes: config.maxFileMiB * MiB,
      maxRepoBytes: config.maxRepoMiB * MiB,
    };
    const folder = openReposDir(config.reposDir);
    runtime.onStop("repositories' folder", () => folder.close());

    const git = new Git({
      limits: { cpuS: gitCpuS, memoryMiB: config.gitMemoryMiB, maxWriteBytes: 4 * limits.maxRepoBytes },
      searchPath: process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
    });
    const blobs = new BlobStore(db);
    const repos = new RepoCache(folder.path, { db, blobs, git });
    const reader = new Reader(git);

    const facts = connectFactLog(config.contextUrl, trust);
    runtime.onStop("context client", () => facts.close());
    const rounds = runtime.readiness.progress("outbox", outboxBoundMs);
    const outbox = new Outbox({ db, append: facts.append, log, random: Math.random, onRound: () => rounds.tick() });
    outbox.start();
    runtime.onStop("outbox", () => outbox.stop());

    const compactor = new Compactor({ db, blobs, git, log, maxPacks });
    runtime.onStop("compaction", () => compactor.idle());
    const onAccepted = (bare: BareRepo): void => {
      outbox.wake();
      compactor.consider(bare);
    };
    const acceptance = new Acceptance({ db, blobs, git, limits, onAccepted });
    const committer = new Committer({ git, acceptance, nowMs: Date.now });

    const worker = connectBuildWorker(config.buildWorkerUrl, trust, buildLimits);
    runtime.onStop("build worker client", () => worker.close());
    const store = new BuildStore(db, blobs, buildLimits);
    const builder = new Builder({
      repos,
      reader,
      store,
      worker,
      limits: buildLimits,
      toolchain: toolchainDigest(await loadPlatformModules()),
    });

    runtime.grpc.add(RepoServiceService, repoHandlers({ repos, committer, reader }), repoRules);
    runtime.grpc.add(BuildServiceService, buildHandlers(builder, store), buildRules);

    const smartHttp = new SmartHttp({
      git,
      acceptance,
      hooksPath: await installReceiveHook(folder.path),
      maxPackBytes: limits.maxPackBytes,
      deadlineMs: config.gitDeadlineMs,
      log,
    });
    const queue = new JobQueue({ maxRunning: config.gitProcesses, maxWaiting: 4 * config.gitProcesses });
    const gitHttp = new GitHttp({ repos, smartHttp, queue, authenticate: (request) => httpAuth(request, trust, gitPolicy), log });
    // A push is as long as its body: the request's own deadline is git's.
    runtime.addListener(
      "http",
      createHttpServer({ name: "bundler", listen: config.httpListen, log, handler: gitHttp.handle, requestTimeoutMs: 0 }),
    );

    runtime.metrics.observedGauge("iterate.git.requests", { description: "Git requests by state." }, () => [
      { value: queue.running, labels: { state: "running" } },
      { value: queue.waiting, labels: { state: "waiting" } },
    ]);
    const end = startHousekeeping({ db, blobs, metrics: runtime.metrics, log });
    runtime.onStop("housekeeping", end);
  },
});
