/**
 * The listener of operators and probes, apart from all traffic: `/livez` says that the process answers, `/readyz` that it can do its
 * work, `/metrics` is Prometheus' text exposition.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { codedError } from "iterate/lib";
import type { ListenAddress } from "./config.js";
import { createHttpServer, type HttpServer } from "./http-server.js";
import type { Log } from "./log.js";
import type { Metrics } from "./metrics.js";
import type { Readiness } from "./readiness.js";

export { Metrics, type Counter, type Gauge, type Histogram } from "./metrics.js";
export { Readiness, type Progress } from "./readiness.js";

export interface AdminOptions {
  readonly name: string;
  readonly listen: ListenAddress;
  readonly log: Log;
  readonly readiness: Readiness;
  readonly metrics: Metrics;
}

export function createAdminServer({ name, listen, log, readiness, metrics }: AdminOptions): HttpServer {
  return createHttpServer({
    name,
    listen,
    log,
    maxConnections: 100,
    handler: async (request, response) => {
      const path = (request.url ?? "/").split("?")[0]!;
      if (request.method !== "GET" && request.method !== "HEAD")
        throw codedError("NOT_A_METHOD", `${request.method} is not served here`);
      const answer = (status: number, type: string, body: string): void => {
        response.writeHead(status, {
          "content-type": type,
          "content-length": Buffer.byteLength(body),
          "cache-control": "no-store",
        });
        response.end(request.method === "HEAD" ? undefined : body);
      };
      if (path === "/livez") return answer(200, "text/plain; charset=utf-8", "ok\n");
      if (path === "/readyz") {
        const problems = readiness.problems();
        return answer(
          problems.length === 0 ? 200 : 503,
          "application/json",
          `${JSON.stringify({ ready: problems.length === 0, problems })}\n`,
        );
      }
      if (path === "/metrics") return answer(200, "text/plain; version=0.0.4; charset=utf-8", await metrics.text());
      throw codedError("NOT_FOUND", `${path} is not served here; try /livez, /readyz or /metrics`);
    },
  });
}

/** Metrics every process has. The result stops observing. */
export function observeProcess(metrics: Metrics, readiness: Readiness): () => void {
  const delay = monitorEventLoopDelay({ resolution: 20 });
  delay.enable();
  metrics.observedGauge(
    "process.event_loop.delay",
    { description: "99th percentile of the event loop's delay since the last reading.", unit: "s" },
    () => {
      const seconds = delay.percentile(99) / 1e9;
      delay.reset();
      return Number.isFinite(seconds) ? seconds : 0;
    },
  );
  metrics.observedGauge("process.memory.usage", { description: "Memory by kind.", unit: "By" }, () => {
    const usage = process.memoryUsage();
    return (["rss", "heapUsed", "external"] as const).map((kind) => ({ value: usage[kind], labels: { kind } }));
  });
  metrics.observedCounter("process.cpu.time", { description: "Processor time used.", unit: "s" }, () => {
    const { user, system } = process.cpuUsage();
    return [
      { value: user / 1e6, labels: { mode: "user" } },
      { value: system / 1e6, labels: { mode: "system" } },
    ];
  });
  metrics.observedGauge("process.uptime", { description: "Time since the start.", unit: "s" }, () => process.uptime());
  metrics.observedGauge("iterate.loop.age", { description: "Time since each loop made progress.", unit: "s" }, () =>
    readiness.ages().map(({ name, ageMs }) => ({ value: ageMs / 1_000, labels: { loop: name } })),
  );
  metrics.observedGauge("iterate.ready", { description: "1 while the process is ready." }, () =>
    readiness.problems().length === 0 ? 1 : 0,
  );
  return () => void delay.disable();
}
