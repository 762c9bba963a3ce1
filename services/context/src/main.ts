/** The context service: composes its parts and serves them. */
import { randomInt } from "node:crypto";
import { readDescriptorSet } from "@iterate-platform/proto/descriptor-set";
import { AdminServiceService } from "@iterate-platform/proto/iterate/context/v1/admin";
import { ArchiveServiceService } from "@iterate-platform/proto/iterate/context/v1/archive";
import { ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import { FeedServiceService } from "@iterate-platform/proto/iterate/context/v1/feed";
import { SecretServiceService } from "@iterate-platform/proto/iterate/context/v1/secret";
import { failpoint } from "@iterate-platform/service/failpoints";
import { partitionOf, uuidv7 } from "@iterate-platform/service/ids";
import { runService } from "@iterate-platform/service/service";
import { currentTraceparent } from "@iterate-platform/service/tracing";
import { adminHandlers, adminRules } from "./api/admin.js";
import { archiveHandlers, archiveRules } from "./api/archive.js";
import { runTeller } from "./births/run.js";
import { ChildTeller } from "./births/teller.js";
import type { AppendParts } from "./api/append-parts.js";
import { appendHandlers, appendRules, builtinAppend } from "./api/append.js";
import { childrenHandlers, childrenRules } from "./api/children.js";
import { explainHandlers, explainRules } from "./api/explain.js";
import { invokeHandlers, invokeRules } from "./api/invoke.js";
import { feedHandlers, feedRules } from "./api/feed.js";
import { readHandlers, readRules } from "./api/read.js";
import { secretHandlers, secretRules } from "./api/secret.js";
import { chainNames } from "./caller/writer.js";
import { config } from "./config.js";
import { Explainer } from "./explain/explainer.js";
import { GrpcRunnerKnowledge, noRunner } from "./explain/runner-half.js";
import { builtinRoots } from "./invoke/builtins.js";
import { Describer } from "./invoke/describer.js";
import { Invoker } from "./invoke/invoker.js";
import { LocalLogs } from "./invoke/local-log.js";
import { CapabilityProvider } from "./invoke/provider.js";
import { followProviders } from "./invoke/providers.js";
import { Registry } from "./invoke/registry.js";
import { Resolver } from "./invoke/resolver.js";
import { describeRoot } from "./invoke/roots/describe.js";
import { Kv } from "./kv/kv.js";
import { vocabularyOfRoots } from "./rules/roots.js";
import { Vocabulary } from "./core/vocabulary.js";
import { JsonThread } from "./json/worker-thread.js";
import { LogAppender } from "./log/appender.js";
import { MixedReads } from "./log/mixed-read.js";
import { DatabaseWatch } from "./log/database-watch.js";
import { Shard, ShardedReads } from "./log/shard.js";
import { ShardMap } from "./log/shard-map.js";
import { Streams } from "./log/stream.js";
import { Waits } from "./log/wait.js";
import { observe } from "./metrics.js";
import { CommitNews } from "./publish/commit-news.js";
import { CommitStream } from "./publish/commit-stream.js";
import { sweepRetention } from "./retention/sweep.js";
import { RetentionSweeper, retentionTimes } from "./retention/sweeper.js";
import { ScheduleFirer } from "./schedules/firer.js";
import { runSchedules } from "./schedules/run.js";
import { DueSweeper } from "./schedules/sweeper.js";
import { Keyring } from "./secret/keyring.js";
import { Secrets } from "./secret/secrets.js";
import { realTimers } from "./timers.js";

/** A loop that does not go round for so long cannot do its work. */
const loopBoundMs = 30_000;
const maxWriter = 2 ** 47;

const nowMs = (): number => performance.now();

await runService({
  name: "context",
  config,
  migrationsDir: new URL("../migrations", import.meta.url),
  migrationUrls: ({ shards, databaseDirectUrl, databaseUrl }) =>
    shards === undefined ? [databaseDirectUrl ?? databaseUrl] : [...new Set(shards.map(({ url }) => url))],
  nats: true,
  grpc: { descriptorSet: readDescriptorSet() },
  main: (runtime) => {
    const { config, log, trust, broker, grpc, metrics, readiness } = runtime;
    const keyring = Keyring.load(config.secretKeys);
    const newChain = chainNames({ nowMs: Date.now, random: Math.random });
    const traceparent = (): string | null => currentTraceparent() || null;

    const onFault = (error: unknown): void => log.error("an append failed by a fault of the platform", { error });
    const writer = randomInt(maxWriter);
    const vocabulary = new Vocabulary({ writes: config.writtenFormats ?? new Map() });
    const openShard = (url: string): Shard =>
      new Shard({
        url,
        maxConnections: config.poolMax,
        pooler: config.databasePooler,
        maxContexts: config.cachedContexts,
        onCommit: (batch) => news.observe(batch),
        onEphemeral: (batch) => news.observeEphemerals(batch),
        onFault,
        failpoint,
        writer,
        vocabulary,
      });
    const shards = new ShardMap(config.shards ?? [{ first: 0, last: 255, url: config.databaseUrl }], openShard);
    const reads = new ShardedReads(shards);
    const json = new JsonThread();
    const appender = new LogAppender({
      shardOf: (partition) => shards.of(partition),
      json,
      newAppendId: uuidv7,
      nowMs: Date.now,
      vocabulary,
    });

    const stream = new CommitStream({ broker, log, replicas: config.commitStreamReplicas });
    const confirming = readiness.progress("confirmations", loopBoundMs);
    const news = new CommitNews({
      broker,
      log,
      heads: reads,
      onUnstored: () => stream.ensure(),
      onConfirmed: () => confirming.tick(),
    });
    const mixed = new MixedReads({
      reader: reads,
      heads: reads,
      rings: news.rings,
      isHeld: (address) => reads.holdsNewest(address),
    });
    const streams = new Streams({ reader: reads, heads: reads, live: news.hub, nowMs }, config.maxStreams);
    const waits = new Waits({ reader: reads, heads: reads, live: news.hub, maxWaiters: config.maxWaiters });
    const secrets = new Secrets({ keyring, appender, heads: reads, nowMs });
    // With one of several databases away a process is still of use to the contexts of the others.
    const answering = readiness.progress("databases", loopBoundMs);
    const databases = shards.all.map((shard) => new DatabaseWatch({ ping: () => shard.ping(), progress: answering, log }));

    const appendParts: AppendParts = {
      appender,
      newChain,
      traceparent,
      verifyExecution: (token) => trust.verifyExecution(token),
      onFault: (error) => log.error("an append failed for no reason it may have", { error }),
    };
    const logHandlers = {
      ...appendHandlers(appendParts),
      ...readHandlers({ reader: reads, mixed, heads: reads, streams, waits, past: reads }),
    };
    const kv = new Kv({ heads: reads, storeOf: ({ owner, path }) => shards.of(partitionOf(owner, path)).kv });
    const resolver = new Resolver({ heads: reads, roots: vocabularyOfRoots });
    const { protocol } = new URL(config.publicBaseUrl);
    const builtins = builtinRoots({
      heads: reads,
      urlOf: (slug) => `${protocol}//${config.projectBase}/projects/${slug}/`,
      resolver,
      kv,
      schedulesOf: (partition) => shards.of(partition).store.schedules,
      forget: (address) => reads.forget(address),
    });
    const own = new Set(builtins.map(({ name }) => name));
    const providers = [...(config.capabilityProviders ?? [])].map(
      ([name, url]) => new CapabilityProvider({ name, url, trust, log, isTaken: (root) => own.has(root) }),
    );
    const registry = new Registry(builtins, providers);
    const following = followProviders(providers, realTimers, runtime.stopping);
    const logs = new LocalLogs({ ...logHandlers, append: builtinAppend(appendParts) });
    const invoker = new Invoker({ registry, resolver, logs, newChain });
    const describer = new Describer({ registry, resolver, heads: reads, logs });
    registry.add(describeRoot((call, asked) => describer.describe(call.address, asked, call)));
    const runnerUrl = config.capabilityProviders?.get("runner");
    const runner =
      runnerUrl === undefined
        ? null
        : new GrpcRunnerKnowledge(runnerUrl, trust, (error) => log.warn("the runner did not say what it knows", { error }));
    const explainer = new Explainer({ heads: reads, reads, runner: runner ?? noRunner, nowMs: Date.now });
    grpc.add(
      ContextServiceService,
      {
        ...logHandlers,
        ...invokeHandlers({ invoker, describer }),
        ...explainHandlers(explainer),
        ...childrenHandlers(shards.all.map(({ children }) => children)),
      },
      { ...appendRules, ...readRules, ...invokeRules, ...explainRules, ...childrenRules },
    );
    const feed = {
      storeOf: (partition: number) => shards.of(partition).store,
      floorsOf: (partition: number) => shards.of(partition).retention,
    };
    grpc.add(FeedServiceService, feedHandlers(feed), feedRules);
    const archiveStores = shards.all.map(({ archives }) => archives);
    const storeOf = (partition: number) => shards.of(partition).archives;
    const generationOf = (partition: number) => shards.of(partition).store.generation();
    const exports = { heads: reads, stores: archiveStores, storeOf, now: () => new Date() };
    const stages = { stores: archiveStores, storeOf, generationOf, vocabulary, json, newChain };
    grpc.add(ArchiveServiceService, archiveHandlers({ exports, stages, stores: archiveStores, nowMs }), archiveRules);
    grpc.add(AdminServiceService, adminHandlers({ shards: shards.all, log }), adminRules);
    grpc.add(SecretServiceService, secretHandlers({ secrets, newChain, traceparent }), secretRules);
    const times = { ...retentionTimes, roundMs: config.retentionRoundMs, sweepMs: config.retentionSweepMs };
    const sweepers = shards.all.map(
      ({ retention, cache }) =>
        new RetentionSweeper({
          store: retention,
          refresh: (contextIds) => cache.refresh(contextIds),
          appender,
          newChain,
          failpoint,
          times,
          onFailure: ({ address }, error) =>
            log.warn("a log could not be shortened", { owner: address.owner, contextPath: address.path, error }),
        }),
    );
    const rounds = readiness.progress("retention", loopBoundMs + times.roundMs);
    const sweeping = sweepRetention({
      sweepers,
      roundMs: times.roundMs,
      timers: realTimers,
      stopping: runtime.stopping,
      onRound: () => rounds.tick(),
      onFailure: (error) => log.warn("a round of retention failed", { error }),
    });
    const firing = shards.all.map(({ store, cache, dueBell }) => {
      const refresh = (contextIds: readonly number[]) => cache.refresh(contextIds);
      const firer = new ScheduleFirer({
        store: store.schedules,
        refresh,
        appender,
        failpoint,
        onFailure: ({ contextId, key }, error) =>
          log.warn("a schedule could not be fired; it is tried again", { contextId, key, error }),
      });
      const { reducerVersion } = cache;
      return { firer, sweeper: new DueSweeper({ store: store.schedules, reducerVersion, refresh }), bell: dueBell };
    });
    const firings = readiness.progress("schedules", loopBoundMs);
    const loop = {
      sweepMs: config.scheduleSweepMs,
      timers: realTimers,
      stopping: runtime.stopping,
      onRound: () => firings.tick(),
      onFailure: (error: unknown) => log.warn("a round of schedules failed", { error }),
    };
    const scheduling = Promise.all(firing.map((parts) => runSchedules({ ...parts, ...loop })));
    const tellers = shards.all.map(
      ({ births, newborn }) =>
        new ChildTeller({
          store: births,
          newborn,
          heads: reads,
          appender,
          newChain,
          failpoint,
          onFailure: ({ owner, path }, error) =>
            log.warn("a context could not be told of its children; it is told again", { owner, contextPath: path, error }),
        }),
    );
    const tellings = readiness.progress("births", loopBoundMs);
    const telling = Promise.all(
      tellers.map((teller) =>
        runTeller({
          teller,
          sweepMs: config.birthSweepMs,
          timers: realTimers,
          stopping: runtime.stopping,
          onRound: () => tellings.tick(),
          onFailure: (error) => log.warn("births could not be told", { error }),
        }),
      ),
    );
    observe(metrics, { shards, news, streams, waits, secrets, sweepers, firing });

    // Run in reverse: what was committed is told before the broker closes.
    runtime.onStop("json", () => json.close());
    runtime.onStop("databases", () => Promise.all(shards.all.map((shard) => shard.close())));
    runtime.onStop("retention", () => sweeping);
    runtime.onStop("schedules", () => scheduling);
    runtime.onStop("births", () => telling);
    runtime.onStop("runner", () => runner?.close());
    runtime.onStop("database watch", () => databases.forEach((database) => database.close()));
    runtime.onStop("secrets", () => secrets.close());
    runtime.onStop("capability providers", () => following.then(() => providers.forEach((provider) => provider.close())));
    runtime.onStop("commit stream", () => stream.close());
    runtime.onStop("publication", (boundMs) => news.close(Math.min(boundMs, 2_000)));
    runtime.onStop("appends", () => Promise.all(shards.all.map(({ writer }) => writer.settled())));
  },
});
