/** The runner's variables beyond those of every service. */
import { defineConfig, integer, listen, url } from "@iterate-platform/service/config";

const schemes = ["http", "https"] as const;

export const runnerConfig = defineConfig({
  contextUrl: url("CONTEXT_URL", schemes, { description: "Internal gRPC of context.", default: "http://127.0.0.1:7410" }),
  bundlerUrl: url("BUNDLER_URL", schemes, { description: "Internal gRPC of bundler.", default: "http://127.0.0.1:7413" }),
  isolateUrl: url("ISOLATE_URL", schemes, { description: "Internal gRPC of runner-isolate.", default: "http://127.0.0.1:7412" }),
  isolateHttpUrl: url("ISOLATE_HTTP_URL", schemes, {
    description: "Internal HTTP of runner-isolate.",
    default: "http://127.0.0.1:7442",
  }),
  httpListen: listen("HTTP_LISTEN", { description: "Where internal HTTP (project pages) is served.", default: "127.0.0.1:0" }),
  retryBaseMs: integer(
    "DELIVERY_RETRY_BASE_MS",
    { min: 1, max: 60_000 },
    { description: "Wait after the first failure of a delivery; it doubles up to 30 minutes.", default: "1000" },
  ),
  maxAttempts: integer(
    "DELIVERY_MAX_ATTEMPTS",
    { min: 1, max: 100 },
    { description: "Failures of one event that halt its subscription.", default: "15" },
  ),
  concurrency: integer(
    "DELIVERY_CONCURRENCY",
    { min: 1, max: 1_000 },
    { description: "Batches in flight in this process.", default: "128" },
  ),
  projectConcurrency: integer(
    "DELIVERY_PROJECT_CONCURRENCY",
    { min: 1, max: 1_000 },
    { description: "Batches in flight of one project, and requests to its pages.", default: "8" },
  ),
  checkpointMs: integer(
    "DELIVERY_DEADLINE_MS",
    { min: 100, max: 600_000 },
    { description: "Bound of one batch until its checkpoint.", default: "60000" },
  ),
  sweepMs: integer(
    "FEED_SWEEP_MS",
    { min: 50, max: 60_000 },
    { description: "Between two readings of each partition's commit feed.", default: "5000" },
  ),
  floorsMs: integer(
    "REPORT_FLOORS_MS",
    { min: 100, max: 600_000 },
    {
      description: "Between two reports of how far subscriptions have got in logs that give up their past.",
      default: "30000",
    },
  ),
  leaseTtlMs: integer(
    "LEASE_TTL_MS",
    { min: 500, max: 60_000 },
    {
      description: "Life of a partition lease; renewed after three tenths of it, work stops a fifth before its end.",
      default: "10000",
    },
  ),
});
