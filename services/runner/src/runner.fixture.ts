/** Runners of a test platform: composed in this process, with processors of the test's own. */
import { createLog, type Log } from "@iterate-platform/service/log";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { connectBroker } from "@iterate-platform/service/nats";
import { createPool } from "@iterate-platform/service/postgres";
import { defineProcessorContract, StreamProcessor, type ProcessEventArgs, type ReduceArgs } from "iterate/stream/processor";
import { z } from "zod";
import { runnerConfig } from "./config.js";
import type { TestPlatform } from "./platform.fixture.js";
import type { NativeEnvironment, NativeProcessor } from "./processors/native-hosts.js";
import { composeRunner, type Runner } from "./runner.js";

export interface TestRunner extends Runner {
  /** Log lines, parsed. */
  readonly lines: readonly Readonly<Record<string, unknown>>[];
  readonly pod: string;
}

export interface TestRunnerOptions {
  readonly processors?: Readonly<Record<string, (environment: NativeEnvironment) => StreamProcessor>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly natsUrl?: string;
}

/** Quick enough for a test, slow enough for a loaded machine. */
const quick = { DELIVERY_RETRY_BASE_MS: "20", LEASE_TTL_MS: "2000", FEED_SWEEP_MS: "3000", REPORT_FLOORS_MS: "300" };

/** Composes and starts one; stop it before the platform. */
export async function startRunner(platform: TestPlatform, options: TestRunnerOptions = {}): Promise<TestRunner> {
  const lines: Record<string, unknown>[] = [];
  const log: Log = createLog("runner", { level: "info", write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) });
  const db = createPool({ url: platform.runnerDatabase.url, applicationName: "runner", max: 6 });
  const leaseDb = createPool({ url: platform.runnerDatabase.url, applicationName: "runner-leases", max: 2 });
  const broker = connectBroker({ url: options.natsUrl ?? platform.nats.url, name: "runner", log });
  const pod = `test-${uuidv7()}`;
  const runner = composeRunner({
    config: runnerConfig.load({
      ...quick,
      CONTEXT_URL: platform.contextUrl,
      ISOLATE_URL: "http://127.0.0.1:1",
      ISOLATE_HTTP_URL: "http://127.0.0.1:1",
      BUNDLER_URL: "http://127.0.0.1:1",
      ...options.env,
    }),
    pod,
    db,
    leaseDb,
    broker,
    trust: await platform.keys.trustOf("runner"),
    log,
    clock: { nowMs: Date.now, monotonicMs: () => performance.now(), random: Math.random },
    newUuid: uuidv7,
    newInvocationId: () => newId("inv"),
    processors: Object.fromEntries(
      Object.entries(options.processors ?? {}).map(([name, create]): [string, NativeProcessor] => [
        name,
        { isHostedIn: () => true, checkpointMs: 60_000, create },
      ]),
    ),
  });
  runner.start();
  return {
    ...runner,
    pod,
    lines,
    stop: async () => {
      await runner.stop();
      await broker.close(0);
      await Promise.all([db.end(0), leaseDb.end(0)]);
    },
  };
}

/** Counts what it is given and says so. */
export const counterContract = defineProcessorContract({
  slug: "counter",
  version: "1",
  description: "Counts ticks.",
  stateSchema: z.object({ count: z.int().default(0), offsets: z.array(z.int()).default([]) }),
  events: { tick: z.object({ n: z.int().optional() }) },
  consumes: ["tick"],
  emits: ["ticked"],
});

export class Counter extends StreamProcessor<typeof counterContract> {
  readonly contract = counterContract;

  override reduce({ event, state }: ReduceArgs<typeof counterContract>) {
    return { count: state.count + 1, offsets: [...state.offsets, event.offset] };
  }

  override processEvent({ event, emit }: ProcessEventArgs<typeof counterContract>): void {
    if (event !== null) emit({ type: "ticked", payload: { of: event.offset } });
  }
}

/** Takes ticks and noise, does what the test says. */
export const scriptedContract = defineProcessorContract({
  slug: "scripted",
  version: "1",
  description: "Does what a test says.",
  stateSchema: z.object({ seen: z.array(z.int()).default([]) }),
  consumes: "*",
  emits: ["tick", "a", "b", "c"],
});

export type ScriptedArgs = ProcessEventArgs<typeof scriptedContract>;

export class Scripted extends StreamProcessor<typeof scriptedContract> {
  readonly contract = scriptedContract;
  constructor(
    readonly script: (args: ScriptedArgs) => unknown,
    readonly onReduce: (offset: number) => void = () => undefined,
  ) {
    super();
  }

  override reduce({ event, state }: ReduceArgs<typeof scriptedContract>) {
    this.onReduce(event.offset);
    return { seen: [...state.seen, event.offset] };
  }

  override processEvent(args: ScriptedArgs): unknown {
    return this.script(args);
  }
}
