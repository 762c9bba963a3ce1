/** The variables that services have in common, by what a service uses. */
import { defineConfig, file, integer, listen, oneOf, optional, text, url, type ConfigValues } from "./config.js";
import { logLevels } from "./log.js";

/** Variables of every service. */
export const baseConfig = defineConfig({
  logLevel: oneOf("LOG_LEVEL", logLevels, { description: "Least level that is logged.", default: "info" }),
  adminListen: listen("ADMIN_LISTEN", { description: "Where /livez, /readyz and /metrics are served.", default: "127.0.0.1:0" }),
  trustedKeysFile: file("ITERATE_TRUSTED_KEYS_FILE", { description: "Public keys of the services." }),
  serviceKeyFile: optional(
    file("ITERATE_SERVICE_KEY_FILE", {
      description: "Private key this service signs its calls with; without one it calls nobody.",
    }),
  ),
  drainMs: integer(
    "DRAIN_MS",
    { min: 0, max: 600_000 },
    { description: "Bound of an orderly end after SIGTERM, milliseconds; keep it below the pod's grace period.", default: "25000" },
  ),
  otlpEndpoint: optional(
    url("OTEL_EXPORTER_OTLP_ENDPOINT", ["http", "https"], {
      description: "OTLP gRPC receiver of traces and logs; empty for none. Read by the preload.",
    }),
  ),
  sampleRatio: text("OTEL_TRACES_SAMPLER_ARG", { description: "Share of traces kept, 0 to 1. Read by the preload.", default: "1" }),
  failpoints: optional(text("FAILPOINTS", { description: "Points where the process is made to fail, for tests." })),
});

export const grpcConfig = defineConfig({
  grpcListen: listen("GRPC_LISTEN", { description: "Where internal gRPC is served.", default: "127.0.0.1:0" }),
});

export const postgresConfig = defineConfig({
  databaseUrl: url("DATABASE_URL", ["postgres", "postgresql"], { description: "This service's own database role.", secret: true }),
  databaseDirectUrl: optional(
    url("DATABASE_DIRECT_URL", ["postgres", "postgresql"], {
      description: "The same past any pooler, for migrations and leases; DATABASE_URL when unset.",
      secret: true,
    }),
  ),
  databasePooler: oneOf("DATABASE_POOLER", ["none", "transaction"], {
    description: "Whether DATABASE_URL leads to a pooler.",
    default: "none",
  }),
});

export const natsConfig = defineConfig({
  natsUrl: url("NATS_URL", ["nats", "tls"], { description: "The broker.", default: "nats://127.0.0.1:7422" }),
  natsUser: optional(text("NATS_USER", { description: "This service's user at the broker." })),
  natsPassword: optional(text("NATS_PASSWORD", { description: "Its password.", secret: true })),
});

export type BaseValues = ConfigValues<typeof baseConfig.spec> &
  ConfigValues<typeof grpcConfig.spec> &
  ConfigValues<typeof postgresConfig.spec> &
  ConfigValues<typeof natsConfig.spec>;
