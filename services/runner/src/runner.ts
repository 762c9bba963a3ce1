/** The runner without its listeners: everything between the database, the broker and the other services. */
import { bucketOf } from "@iterate-platform/service/ids";
import type { ConfigValues } from "@iterate-platform/service/config";
import type { Log } from "@iterate-platform/service/log";
import type { Broker } from "@iterate-platform/service/nats";
import type { Queryable } from "@iterate-platform/service/postgres";
import type { ExecutionClaims, Trust } from "@iterate-platform/service/trust";
import type { runnerConfig } from "./config.js";
import type { ContextKey } from "./delivery/contract.js";
import { Attempts, attemptTimes, type AttemptsParts } from "./delivery/attempt.js";
import { chargeRules } from "./delivery/charge.js";
import { endBackOff as endBackOffOf } from "./delivery/delivery.sql.js";
import { FairTurns } from "./delivery/fair-turns.js";
import { deliveryCode } from "./delivery/facts.js";
import { Hosts } from "./delivery/hosts.js";
import type { LineParts } from "./delivery/line.js";
import { Outbox } from "./delivery/outbox.js";
import { batchLimits } from "./delivery/page.js";
import { Progress } from "./delivery/progress.js";
import { Snapshots } from "./delivery/snapshots.js";
import { LeaseBoundClaims } from "./fetch/request-claims.js";
import { ProjectPages } from "./fetch/project-pages.js";
import { BrokerHints } from "./intake/broker-hints.js";
import type { DeskParts } from "./intake/context-desk.js";
import { Intake, intakeTimes, type IntakeParts } from "./intake/intake.js";
import { partitionRules } from "./intake/partition-desk.js";
import { IsolatePool } from "./isolate/client.js";
import { ProjectNames } from "./itx/project-names.js";
import type { Lease } from "./lease/lease.js";
import { LeaseKeeper, type LeaseTimes } from "./lease/lease-keeper.js";
import { GrpcContextLog } from "./log/grpc-context-log.js";
import { builtinProcessors } from "./processors/builtin.js";
import { IsolatedHosts } from "./processors/isolated-hosts.js";
import { NativeHosts, type NativeProcessor } from "./processors/native-hosts.js";
import { createBuildClient, PublishedCode } from "./processors/published-code.js";
import { OpenRuns } from "./runs/open-runs.js";

export interface Clock {
  /** Wall clock, milliseconds since 1970. */
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
  /** In [0, 1). */
  readonly random: () => number;
}

export interface RunnerParts {
  readonly config: ConfigValues<(typeof runnerConfig)["spec"]>;
  /** Names this process among the holders of leases; never used again by another. */
  readonly pod: string;
  readonly db: Queryable;
  readonly leaseDb: Queryable;
  readonly broker: Broker;
  readonly trust: Trust;
  readonly log: Log;
  readonly clock: Clock;
  readonly newUuid: () => string;
  readonly newInvocationId: () => string;
  readonly onRenewed?: () => void;
  readonly onTick?: NonNullable<IntakeParts["onTick"]>;
  readonly observe?: NonNullable<AttemptsParts["observe"]>;
  /** Processors beside the platform's own, by name. */
  readonly processors?: Readonly<Record<string, NativeProcessor>>;
}

export interface Runner {
  readonly intake: Intake;
  readonly leases: LeaseKeeper;
  readonly snapshots: Snapshots;
  readonly pages: ProjectPages;
  readonly turns: FairTurns;
  start(): void;
  /** Hands partitions over, then ends. Bounded. */
  stop(): Promise<void>;
}

/** Commits a second of one busy subscription. */
const pace = { perSecond: 20, burst: 20 };
const store = { offsets: 1_000, ms: 30_000 };
const maxLooks = { total: 32, perProject: 8 };
const pageDeadlineMs = 600_000;
/** What is recorded of a context needs its token for no longer. */
const recordTokenS = 60;

export function composeRunner(parts: RunnerParts): Runner {
  const { config, db, log: report, trust, clock, newUuid } = parts;
  const mint = (claims: ExecutionClaims): Promise<string> => trust.mintExecution(claims);
  const contextLog = new GrpcContextLog(config.contextUrl, trust);
  const builds = createBuildClient(config.bundlerUrl, trust);
  const isolates = new IsolatePool({ trust, url: config.isolateUrl, httpUrl: config.isolateHttpUrl });
  const code = new PublishedCode(contextLog, builds);
  const progress = new Progress();
  const snapshots = new Snapshots(db, contextLog, progress);
  const itx = { log: contextLog, snapshots, names: new ProjectNames(contextLog) };
  const { newInvocationId } = parts;

  const endBackOff = async (owner: string, rows: readonly { readonly context: string; readonly name: string }[]): Promise<void> => {
    await db.query(
      endBackOffOf(
        owner,
        rows.map(({ context, name }) => ({ path: context, name })),
      ),
    );
  };
  const native = new NativeHosts(
    {
      ...builtinProcessors({ log: contextLog, builds, code, isolates, newInvocationId, endBackOff, report }),
      ...parts.processors,
    },
    contextLog,
    report,
  );
  const hosts = new Hosts(native, new IsolatedHosts({ code, isolates, itx, report, newInvocationId }));
  const attempts = new Attempts({
    db,
    hosts,
    mint,
    newId: newUuid,
    nowMs: clock.nowMs,
    random: clock.random,
    report,
    times: { ...attemptTimes, checkpointMs: config.checkpointMs },
    ...(parts.observe === undefined ? {} : { observe: parts.observe }),
  });
  const turns = new FairTurns({ total: config.concurrency, perProject: config.projectConcurrency });
  const line: LineParts = {
    db,
    log: contextLog,
    attempts,
    outbox: new Outbox({ db, log: contextLog, newId: newUuid, report }),
    turns,
    quarantine: new FairTurns({ total: config.concurrency, perProject: 1 }),
    progress,
    rules: {
      charge: { ...chargeRules, ladder: { ...chargeRules.ladder, baseMs: config.retryBaseMs }, maxAttempts: config.maxAttempts },
      batch: batchLimits,
      pace,
      store,
    },
    report,
    newId: newUuid,
    random: clock.random,
    monotonicMs: clock.monotonicMs,
  };
  const recordToken = (context: ContextKey, { partition, epoch }: Lease): Promise<string> => {
    const nowMs = clock.nowMs();
    const chain = `${new Date(nowMs).toISOString()} with takeover ~${Math.floor(clock.random() * 2 ** 52).toString(36)}`;
    return mint({
      owner: context.owner,
      context: context.path,
      code: deliveryCode,
      partition,
      epoch: Number(epoch),
      cause: { chain, depth: 0 },
      scope: [],
      exp: Math.floor(nowMs / 1_000) + recordTokenS,
    });
  };
  const desk: DeskParts = {
    db,
    log: contextLog,
    line,
    looks: new FairTurns(maxLooks),
    runs: new OpenRuns({ db, log: contextLog, recordToken }),
    report,
    random: clock.random,
    raiseEpoch: async (context, lease) => {
      await contextLog.append(context, [], { execution: await recordToken(context, lease), signal: lease.signal });
    },
  };
  const intake = new Intake({
    db,
    desk,
    hints: new BrokerHints(parts.broker, report),
    bucketOf,
    rules: { ...partitionRules, sweepMs: config.sweepMs },
    times: { ...intakeTimes, floorsMs: config.floorsMs },
    report,
    ...(parts.onTick === undefined ? {} : { onTick: parts.onTick }),
  });
  const leases = new LeaseKeeper({
    pod: parts.pod,
    db: parts.leaseDb,
    worker: intake,
    log: report,
    times: timesOf(config.leaseTtlMs),
    monotonicMs: clock.monotonicMs,
    ...(parts.onRenewed === undefined ? {} : { onRenewed: parts.onRenewed }),
  });
  const pages = new ProjectPages({
    code,
    isolates,
    itx,
    requests: new LeaseBoundClaims({ db, mint, nowMs: clock.nowMs, random: clock.random, maxMs: pageDeadlineMs }),
    turns: new FairTurns({ total: 4 * config.concurrency, perProject: 4 * config.projectConcurrency }),
    report,
    newInvocationId,
    deadlineMs: pageDeadlineMs,
  });

  return {
    intake,
    leases,
    snapshots,
    pages,
    turns,
    start: () => {
      intake.open();
      leases.start();
    },
    stop: async () => {
      await leases.stop();
      await intake.close();
      await isolates.close();
      builds.close();
      contextLog.close();
    },
  };
}

/** Renewed well before it lapses; what runs is stopped before anyone else may begin. */
function timesOf(ttlMs: number): LeaseTimes {
  return {
    ttlMs,
    renewMs: Math.round(ttlMs * 0.3),
    balanceMs: Math.min(1_000, Math.round(ttlMs * 0.1)),
    marginMs: Math.round(ttlMs * 0.2),
    drainMs: Math.round(ttlMs * 0.5),
  };
}
