/** The isolate role put together: a pool of processes behind a gRPC service and an HTTP listener. It calls nobody. */
import { IsolateServiceService } from "@iterate-platform/proto/iterate/runner/v1/isolate";
import type { ListenAddress } from "@iterate-platform/service/config";
import type { GrpcServer } from "@iterate-platform/service/grpc-server";
import { createHttpServer, type HttpServer } from "@iterate-platform/service/http-server";
import type { Log } from "@iterate-platform/service/log";
import type { Trust } from "@iterate-platform/service/trust";
import type { Bundle } from "./bundle.js";
import type { Exchange } from "./exchange.js";
import { exchangeHandler, exchangeHeaderBytes } from "./exchange-listener.js";
import { Isolate } from "./isolate.js";
import { isolateServiceHandlers, isolateServiceRules } from "./isolate-service.js";
import type { IsolateLimits } from "./limits.js";
import type { IsolatePrograms } from "./platform.js";
import { ProcessPool, type PoolLimits } from "./process-pool.js";

export interface IsolateRoleParts {
  readonly grpc: GrpcServer;
  readonly httpListen: ListenAddress;
  readonly trust: Trust;
  readonly log: Log;
  readonly limits: IsolateLimits;
  readonly pool: Omit<PoolLimits, "invocationsPerProcess">;
  readonly tenancy: "project" | "shared";
  readonly programs: IsolatePrograms;
  /** Told of every process that started. */
  readonly onStart?: (isolate: Isolate, ms: number) => void;
}

export interface IsolateRole {
  /** End it after the listeners have drained. */
  readonly pool: ProcessPool<Isolate>;
  /** Not yet listening. */
  readonly http: HttpServer;
}

/** Adds the service to `grpc`, which the caller starts. */
export function isolateRole({
  grpc,
  httpListen,
  trust,
  log,
  limits,
  pool,
  tenancy,
  programs,
  onStart,
}: IsolateRoleParts): IsolateRole {
  const start = async (bundle: Bundle) => {
    const startedAt = performance.now();
    const isolate = await Isolate.start(bundle, { limits, programs });
    onStart?.(isolate, performance.now() - startedAt);
    void isolate.ended.then((ending) => {
      if (ending.kind !== "retired")
        log.warn("an isolate ended", { owner: bundle.owner, digest: bundle.digest, ending: ending.kind });
    });
    return isolate;
  };
  const poolLimits = { ...pool, invocationsPerProcess: limits.invocationsPerProcess };
  const processes = new ProcessPool({ limits: poolLimits, start, tenancy, nowMs: () => performance.now() });
  const exchanges = new Map<string, Exchange>();
  grpc.add(IsolateServiceService, isolateServiceHandlers({ pool: processes, limits, exchanges }), isolateServiceRules);
  // Bodies are streams of any length: the invocation's deadline bounds them.
  const http = createHttpServer({
    name: "runner-isolate",
    listen: httpListen,
    log,
    handler: exchangeHandler(trust, exchanges),
    maxHeaderBytes: exchangeHeaderBytes,
    requestTimeoutMs: 0,
  });
  return { pool: processes, http };
}
