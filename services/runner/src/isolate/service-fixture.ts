/** The isolate role as a runner meets it, in one process: real gRPC, real HTTP, real keys, real workerd. */
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { IsolateServiceService } from "@iterate-platform/proto/iterate/runner/v1/isolate";
import { createGrpcServer } from "@iterate-platform/service/grpc-server";
import { createLog } from "@iterate-platform/service/log";
import { generateKeys, Trust } from "@iterate-platform/service/trust";
import type { Bundle } from "./bundle.js";
import { IsolatePool, type IsolateBundle } from "./client.js";
import type { Exchange } from "./exchange.js";
import { exchangeListener } from "./exchange-listener.js";
import { Isolate } from "./isolate.js";
import { isolateServiceHandlers, isolateServiceRules } from "./isolate-service.js";
import { isolateLimits, type IsolateLimits } from "./limits.js";
import { isolatePrograms } from "./platform.js";
import { poolLimits, ProcessPool, type PoolLimits } from "./process-pool.js";

export interface TestRole {
  readonly client: IsolatePool;
  readonly pool: ProcessPool<Isolate>;
  readonly httpUrl: string;
  readonly grpcUrl: string;
  /** The trust of a service, for calls that are none of the client's. */
  readonly trustOf: (service: string) => Promise<Trust>;
  /** Pids of the processes started so far. */
  readonly pids: number[];
  stop(): Promise<void>;
}

export async function startRole(overrides: { limits?: Partial<IsolateLimits>; pool?: Partial<PoolLimits>; tenancy?: "project" | "shared" } = {}): Promise<TestRole> {
  const directory = await mkdtemp(join(tmpdir(), "iterate-keys-"));
  const keys = await generateKeys({ directory, services: ["runner", "runner-isolate", "bundler"] });
  const trustOf = (service: string) => Trust.load({ service, keyFile: keys.keyFile(service), trustedKeysFile: keys.trustedKeysFile });
  const trust = await Trust.load({ service: "runner-isolate", trustedKeysFile: keys.trustedKeysFile });
  const limits = { ...isolateLimits, ...overrides.limits };
  const programs = isolatePrograms();
  const pids: number[] = [];
  const start = async (bundle: Bundle) => {
    const isolate = await Isolate.start(bundle, { limits, programs });
    pids.push(isolate.pid);
    return isolate;
  };
  const ofPool = { ...poolLimits, invocationsPerProcess: limits.invocationsPerProcess, ...overrides.pool };
  const pool = new ProcessPool({ limits: ofPool, start, tenancy: overrides.tenancy ?? "shared", nowMs: () => performance.now() });
  const exchanges = new Map<string, Exchange>();
  const server = createGrpcServer({ name: "runner-isolate", listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 0 }, log: createLog("test", { level: "error" }), trust });
  server.add(IsolateServiceService, isolateServiceHandlers({ pool, limits, exchanges }), isolateServiceRules);
  const port = await server.start();
  const http = exchangeListener(trust, exchanges);
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const httpUrl = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const grpcUrl = `127.0.0.1:${port}`;
  const client = new IsolatePool({ trust: await trustOf("runner"), url: grpcUrl, httpUrl });
  const stop = async () => {
    await client.close();
    await pool.end();
    http.close();
    http.closeAllConnections();
    await server.drain(500);
    await rm(directory, { recursive: true, force: true });
  };
  return { client, pool, httpUrl, grpcUrl, trustOf, pids, stop };
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
