/** The variables of the context service, beside those every service has. */
import { defineConfig, integer, optional, text, variable, url } from "@iterate-platform/service/config";
import { parseWrittenFormats } from "./core/vocabulary.js";
import { parseProviders } from "./invoke/providers.js";
import { parseShards } from "./log/shard-map.js";

export const config = defineConfig({
  shards: optional(
    variable(
      "CONTEXT_SHARDS",
      { description: "Which database holds which partitions; all of them are in DATABASE_URL when unset.", secret: true },
      "ranges that cover partitions 0 to 255 once, e.g. 0-127=postgres://…,128-255=postgres://…",
      parseShards,
    ),
  ),
  poolMax: integer(
    "DATABASE_POOL_MAX",
    { min: 5, max: 64 },
    { description: "Connections to each database; three of them commit.", default: "8" },
  ),
  cachedContexts: integer(
    "CACHED_CONTEXTS",
    { min: 1, max: 10_000_000 },
    { description: "Contexts whose head and core state stay in memory.", default: "50000" },
  ),
  maxStreams: integer(
    "MAX_STREAMS",
    { min: 1, max: 100_000 },
    { description: "StreamEvents calls open at a time; one more is OVERLOADED.", default: "5000" },
  ),
  maxWaiters: integer(
    "MAX_WAITERS",
    { min: 1, max: 100_000 },
    { description: "WaitForEvent calls open at a time; one more is OVERLOADED.", default: "10000" },
  ),
  retentionRoundMs: integer(
    "RETENTION_ROUND_MS",
    { min: 100, max: 3_600_000 },
    { description: "Between two looks for contexts whose retention is due, milliseconds.", default: "30000" },
  ),
  retentionSweepMs: integer(
    "RETENTION_SWEEP_MS",
    { min: 100, max: 86_400_000 },
    { description: "Between two looks at one context that gives up its past, milliseconds.", default: "3600000" },
  ),
  scheduleSweepMs: integer(
    "SCHEDULE_SWEEP_MS",
    { min: 100, max: 3_600_000 },
    { description: "Between two pages of the look for schedules without a due row, milliseconds.", default: "5000" },
  ),
  birthSweepMs: integer(
    "BIRTH_SWEEP_MS",
    { min: 100, max: 3_600_000 },
    { description: "Between two looks for births that no parent was told of, milliseconds.", default: "10000" },
  ),
  commitStreamReplicas: integer(
    "COMMIT_STREAM_REPLICAS",
    { min: 1, max: 5 },
    { description: "Copies the broker keeps of the stream of commits.", default: "1" },
  ),
  capabilityProviders: optional(
    variable(
      "CAPABILITY_PROVIDERS",
      { description: "Services that answer roots of itx.builtins beside this one, with their internal gRPC." },
      "services with an address, e.g. runner=http://runner:7411",
      parseProviders,
    ),
  ),
  publicBaseUrl: url("PUBLIC_BASE_URL", ["http", "https"], {
    description: "Address of the platform's own host as people reach it; its scheme is that of the pages of projects too.",
    default: "http://localhost:7400",
  }),
  projectBase: text("PROJECT_BASE", {
    description: "Host (and port) that the pages of projects live under, as `ingress` has it: what `itx.url` answers.",
    default: "127.0.0.1:7402",
  }),
  writtenFormats: optional(
    variable(
      "FORMATS_WRITE",
      {
        description:
          "Newest stored format of event types that may be written. Set it when no release that cannot read the format may come back; " +
          "a type that is not named is written one format behind the newest known.",
      },
      "types with a format, e.g. itx/paused=2,repo/commit-completed=3",
      (text) => parseWrittenFormats(text),
    ),
  ),
  secretKeys: text("ITERATE_SECRET_KEYS", {
    description:
      'Key-encryption keys, as JSON {"primary": id, "keys": {id: base64 of 32 bytes}} or the path of a file that holds it.',
    secret: true,
  }),
});
