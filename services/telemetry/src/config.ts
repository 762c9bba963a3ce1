/** The variables of telemetry beyond those of every service. */
import { defineConfig, integer, listen } from "@iterate-platform/service/config";

export const config = defineConfig({
  otlpGrpcListen: listen("OTLP_GRPC_LISTEN", { description: "Where OTLP over gRPC is received.", default: "127.0.0.1:4317" }),
  otlpHttpListen: listen("OTLP_HTTP_LISTEN", {
    description: "Where OTLP over HTTP is received, protobuf and JSON.",
    default: "127.0.0.1:4318",
  }),
  retentionDays: integer(
    "TELEMETRY_RETENTION_DAYS",
    { min: 2, max: 365 },
    { description: "Whole days that spans and logs are kept, besides today.", default: "7" },
  ),
  queueBytes: integer(
    "TELEMETRY_QUEUE_BYTES",
    { min: 8_388_608, max: 1_073_741_824 },
    {
      description:
        "Memory that spans, and as much again that logs, may wait in for the database; beyond it senders are told to wait.",
      default: "50331648",
    },
  ),
});
