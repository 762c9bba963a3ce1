/** The isolate role as a runner meets it, in one process: real gRPC, real HTTP, real keys, real workerd. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createGrpcServer } from "@iterate-platform/service/grpc-server";
import { createLog } from "@iterate-platform/service/log";
import { generateKeys, Trust } from "@iterate-platform/service/trust";
import type { Bundle } from "./bundle.js";
import { IsolatePool, type IsolateBundle } from "./client.js";
import { isolateLimits, type IsolateLimits } from "./limits.js";
import { isolatePrograms } from "./platform.js";
import { poolLimits } from "./process-pool.js";
import { isolateRole } from "./role.js";

export interface TestRole {
  readonly client: IsolatePool;
  readonly httpUrl: string;
  readonly grpcUrl: string;
  /** The trust of a service, for calls that are none of the client's. */
  readonly trustOf: (service: string) => Promise<Trust>;
  /** Pids of the processes started so far. */
  readonly pids: number[];
  stop(): Promise<void>;
}

/** Keys of the services that tests speak for, and one that `runner-isolate` must not be given. */
export async function testKeys() {
  const directory = await mkdtemp(join(tmpdir(), "iterate-keys-"));
  const keys = await generateKeys({ directory, services: ["runner", "bundler", "runner-isolate"] });
  const trustOf = (service: string) =>
    Trust.load({ service, keyFile: keys.keyFile(service), trustedKeysFile: keys.trustedKeysFile });
  return {
    trustOf,
    trustedKeysFile: keys.trustedKeysFile,
    keyFile: keys.keyFile,
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

export async function startRole(overrides: Partial<IsolateLimits> = {}): Promise<TestRole> {
  const keys = await testKeys();
  const trust = await Trust.load({ service: "runner-isolate", trustedKeysFile: keys.trustedKeysFile });
  const log = createLog("test", { level: "error" });
  const listen = (variable: string) => ({ variable, host: "127.0.0.1", port: 0 });
  const grpc = createGrpcServer({ name: "runner-isolate", listen: listen("GRPC_LISTEN"), log, trust });
  const pids: number[] = [];
  const { pool, http } = isolateRole({
    grpc,
    httpListen: listen("HTTP_LISTEN"),
    trust,
    log,
    limits: { ...isolateLimits, ...overrides },
    pool: poolLimits,
    tenancy: "shared",
    programs: isolatePrograms(),
    onStart: ({ pid }) => pids.push(pid),
  });
  const grpcUrl = `127.0.0.1:${await grpc.start()}`;
  const httpUrl = `http://127.0.0.1:${await http.start()}`;
  const client = new IsolatePool({ trust: await keys.trustOf("runner"), url: grpcUrl, httpUrl });
  const stop = async () => {
    await client.close();
    await Promise.all([grpc.drain(500), http.drain(500)]);
    await pool.end();
    await keys.remove();
  };
  return { client, httpUrl, grpcUrl, trustOf: keys.trustOf, pids, stop };
}

/** A bundle as the runner holds it; `reads` counts how often its modules were asked for. */
export function held(bundle: Bundle): IsolateBundle & { reads: number } {
  const { owner, digest, mainModule, entryModules, modules } = bundle;
  const holder = {
    owner,
    digest,
    entryModules,
    ...(mainModule === undefined ? {} : { mainModule }),
    reads: 0,
    modules: () => {
      holder.reads++;
      return modules;
    },
  };
  return holder;
}

let invocations = 0;

export function invocationOf(bundle: IsolateBundle) {
  return { bundle, invocationId: `inv_${++invocations}`, contextPath: "/a", callerPath: "/b", deadlineMs: 15_000 };
}
