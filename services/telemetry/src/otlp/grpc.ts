/**
 * OTLP over gRPC. Senders show no credential, the official exporters have none to show: who reaches this listener is the network's
 * decision. Requests stay bytes until the receiver reads them item by item.
 */
import type { ExportLogsServiceResponse } from "@iterate-platform/proto/opentelemetry/proto/collector/logs/v1/logs_service";
import { LogsServiceService } from "@iterate-platform/proto/opentelemetry/proto/collector/logs/v1/logs_service";
import type { ExportMetricsServiceResponse } from "@iterate-platform/proto/opentelemetry/proto/collector/metrics/v1/metrics_service";
import { MetricsServiceService } from "@iterate-platform/proto/opentelemetry/proto/collector/metrics/v1/metrics_service";
import type { ExportTraceServiceResponse } from "@iterate-platform/proto/opentelemetry/proto/collector/trace/v1/trace_service";
import { TraceServiceService } from "@iterate-platform/proto/opentelemetry/proto/collector/trace/v1/trace_service";
import { createGrpcServer, type GrpcServer, type GrpcServerOptions } from "@iterate-platform/service/grpc-server";
import { maxExportBytes } from "../limits.js";
import type { PartialSuccess, Receiver } from "./receiver.js";

const anyone = { services: ["otlp"], execution: "refused" } as const;
const asBytes = (bytes: Buffer): Buffer => bytes;

export function otlpGrpcServer(
  receiver: Receiver,
  options: Omit<GrpcServerOptions, "authenticate" | "trust" | "maxRequestBytes">,
): GrpcServer {
  const methods = [TraceServiceService, LogsServiceService, MetricsServiceService].map((service) => service.export.path);
  const server = createGrpcServer({
    ...options,
    authenticate: () => ({ service: "otlp" }),
    maxRequestBytes: Object.fromEntries(methods.map((path) => [path, maxExportBytes])),
    maxConcurrentStreams: 100,
  });
  server.add(
    { export: { ...TraceServiceService.export, requestDeserialize: asBytes } },
    { export: (body: Buffer) => tracesAnswer(receiver.traces("protobuf", body)) },
    { export: anyone },
  );
  server.add(
    { export: { ...LogsServiceService.export, requestDeserialize: asBytes } },
    { export: (body: Buffer) => logsAnswer(receiver.logs("protobuf", body)) },
    { export: anyone },
  );
  server.add(
    { export: { ...MetricsServiceService.export, requestDeserialize: asBytes } },
    { export: (body: Buffer) => metricsAnswer(receiver.metrics("protobuf", body)) },
    { export: anyone },
  );
  return server;
}

export function tracesAnswer({ rejected, message }: PartialSuccess): ExportTraceServiceResponse {
  return { partialSuccess: rejected === 0 ? undefined : { rejectedSpans: BigInt(rejected), errorMessage: message } };
}

export function logsAnswer({ rejected, message }: PartialSuccess): ExportLogsServiceResponse {
  return { partialSuccess: rejected === 0 ? undefined : { rejectedLogRecords: BigInt(rejected), errorMessage: message } };
}

export function metricsAnswer({ rejected, message }: PartialSuccess): ExportMetricsServiceResponse {
  return { partialSuccess: rejected === 0 ? undefined : { rejectedDataPoints: BigInt(rejected), errorMessage: message } };
}
