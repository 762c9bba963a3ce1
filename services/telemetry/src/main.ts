/** Composes telemetry: OTLP in by gRPC and HTTP, the writer between memory and database, the days' partitions, queries. */
import { setTimeout as timer } from "node:timers/promises";
import { readDescriptorSet } from "@iterate-platform/proto/descriptor-set";
import { TelemetryQueryServiceService } from "@iterate-platform/proto/iterate/telemetry/v1/query";
import { createHttpServer } from "@iterate-platform/service/http-server";
import { runService } from "@iterate-platform/service/service";
import { config } from "./config.js";
import { otlpGrpcServer } from "./otlp/grpc.js";
import { otlpHttpHandler } from "./otlp/http.js";
import { Receiver } from "./otlp/receiver.js";
import { queryRules, queryService } from "./query/query-service.js";
import { BatchQueue } from "./store/batch-queue.js";
import { LogBatch } from "./store/log-batch.js";
import { maintain, maintenanceBoundMs } from "./store/maintenance.js";
import { Partitions } from "./store/partitions.js";
import { SpanBatch } from "./store/span-batch.js";
import { Writer } from "./store/writer.js";
import { TelemetryCounts } from "./telemetry-counts.js";

const writerBoundMs = 60_000;

await runService({
  name: "telemetry",
  config,
  postgres: { max: 2 },
  migrationsDir: new URL("../migrations", import.meta.url),
  grpc: { descriptorSet: readDescriptorSet() },
  main: (runtime) => {
    const { config, log, pool, grpc, metrics, readiness, stopping } = runtime;
    const nowMs = Date.now;
    const counts = new TelemetryCounts();
    counts.observe(metrics);

    const partitions = new Partitions({ pool, retentionDays: config.retentionDays, nowMs });
    const onRows = (): void => writer.wake();
    const spans = new BatchQueue({ create: () => new SpanBatch(), maxBytes: config.queueBytes, nowMs, onRows });
    const logs = new BatchQueue({ create: () => new LogBatch(), maxBytes: config.queueBytes, nowMs, onRows });
    const lanes = [
      { signal: "traces", queue: spans },
      { signal: "logs", queue: logs },
    ] as const;
    const writer = new Writer({
      db: pool,
      lanes,
      partitions,
      log,
      nowMs,
      pause,
      progress: readiness.progress("writer", writerBoundMs),
      onStored: (signal, rows) => counts.stored(signal, rows),
      onDropped: (signal, rows) => counts.dropped(signal, rows),
    });
    metrics.observedGauge("iterate.telemetry.queue", { description: "Memory that waits for the database.", unit: "By" }, () =>
      lanes.map(({ signal, queue }) => ({ value: queue.bytes, labels: { signal } })),
    );
    metrics.observedGauge("iterate.telemetry.oldest_partition", { description: "Age of the oldest day kept.", unit: "s" }, () =>
      partitions.oldestAgeMs === null ? [] : [{ value: partitions.oldestAgeMs / 1_000, labels: {} }],
    );

    const receiver = new Receiver({ spans, logs, counts, nowMs });
    runtime.addListener("otlp-grpc", otlpGrpcServer(receiver, { name: "telemetry", listen: config.otlpGrpcListen, log }));
    runtime.addListener(
      "otlp-http",
      createHttpServer({ name: "telemetry", listen: config.otlpHttpListen, log, handler: otlpHttpHandler(receiver, log) }),
    );
    grpc.add(TelemetryQueryServiceService, queryService(pool, nowMs), queryRules);

    writer.start();
    const maintaining = maintain({
      partitions,
      stopping,
      pause,
      progress: readiness.progress("partitions", maintenanceBoundMs),
      onDropped: (dropped) => log.info("days that are no longer kept are dropped", { partitions: dropped }),
      onFailure: (error) => log.warn("the partitions could not be looked after", { error }),
    });
    runtime.onStop("writer", async (boundMs) => {
      await maintaining;
      // The database gets its bound too, after which a statement under way is given up.
      await writer.stop(boundMs * 0.7);
    });
  },
});

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await timer(ms, undefined, { signal }).catch(() => undefined);
}
