/**
 * The services of the one-machine stack, as a table: what each runs, keeps, is told and may say on the broker. A new service is a
 * new row.
 */
import { listenOn, urlOf, type Ports, type ServiceName } from "./ports.js";
import type { StatePaths } from "./state.js";

/** What a row's variables are made from. */
export interface Surroundings {
  ports: Ports;
  state: StatePaths;
}

export interface ServiceRow {
  name: ServiceName;
  /** Its workspace, from the repository's root. */
  workspace: string;
  /** The compiled program, from its workspace; its source is the same path in `src`. */
  program: string;
  /** Whether it has a schema of its own, and so migrations. */
  hasDatabase: boolean;
  /** Whether it signs calls to others. */
  hasKey: boolean;
  /** The preload that traces it, from the repository's root; a service without sends telemetry nothing. */
  tracePreload?: string;
  /** Settings of Node, the ones its image starts with. */
  nodeArgs?: readonly string[];
  /** Subjects it may use on the broker beside its own inbox; a service without has no user there. */
  broker?: { publish: readonly string[]; subscribe: readonly string[] };
  /** Its other listeners: variable and port, so that a busy port can be named. */
  listens?: (ports: Ports) => Readonly<Record<string, number>>;
  /** Variables beyond those every service gets (`commonVariables`). */
  variables?: (surroundings: Surroundings) => Readonly<Record<string, string>>;
}

/** JetStream's API as far as a publisher to, or a reader of, the stream CTX needs it. */
const streamApi = ["$JS.API.INFO", "$JS.API.STREAM.INFO.CTX", "$JS.API.STREAM.NAMES"];
const streamAdmin = [...streamApi, "$JS.API.STREAM.CREATE.CTX", "$JS.API.STREAM.UPDATE.CTX"];
const streamReader = [
  ...streamApi,
  "$JS.API.CONSUMER.*.CTX.>",
  "$JS.API.CONSUMER.DURABLE.CREATE.CTX.>",
  "$JS.API.CONSUMER.MSG.NEXT.CTX.>",
  "$JS.ACK.CTX.>",
];

const tracePreload = "libs/service/dist/otel-register.js";

export const serviceRows: readonly ServiceRow[] = [
  {
    name: "context",
    workspace: "services/context",
    program: "main.js",
    hasDatabase: true,
    hasKey: true,
    tracePreload,
    // Appends outlive a small young generation while their group commits; collecting it was a sixth of the CPU.
    nodeArgs: ["--max-semi-space-size=64"],
    broker: { publish: ["ctx.*", "live.*", ...streamAdmin], subscribe: ["ctx.*", "live.*", "lend.*"] },
    variables: ({ ports, state }) => ({
      PUBLIC_BASE_URL: `http://localhost:${ports.of("public-http")}`,
      PROJECT_BASE: listenOn(ports.of("projects")),
      CAPABILITY_PROVIDERS: `runner=${urlOf(ports.of("runner"))}`,
      RUNNER_URL: urlOf(ports.of("runner")),
      BUNDLER_URL: urlOf(ports.of("bundler")),
      INGRESS_URL: urlOf(ports.of("ingress")),
      ITERATE_SECRET_KEYS: state.secretKeysFile,
    }),
  },
  {
    name: "runner",
    workspace: "services/runner",
    program: "main.js",
    hasDatabase: true,
    hasKey: true,
    tracePreload,
    broker: { publish: [...streamApi], subscribe: ["ctx.*", "lend.*"] },
    variables: ({ ports }) => ({
      CONTEXT_URL: urlOf(ports.of("context")),
      BUNDLER_URL: urlOf(ports.of("bundler")),
      INGRESS_URL: urlOf(ports.of("ingress")),
      ISOLATE_URL: urlOf(ports.of("runner-isolate")),
      ISOLATE_HTTP_URL: urlOf(ports.http("runner-isolate")),
    }),
  },
  {
    name: "runner-isolate",
    workspace: "services/runner",
    program: "isolate-main.js",
    hasDatabase: false,
    hasKey: false,
    // One process for all projects: a cluster has one for each.
    variables: () => ({ ISOLATE_TENANCY: "shared" }),
  },
  {
    name: "bundler",
    workspace: "services/bundler",
    program: "main.js",
    hasDatabase: true,
    hasKey: true,
    tracePreload,
    variables: ({ ports }) => ({
      CONTEXT_URL: urlOf(ports.of("context")),
      BUILD_WORKER_URL: urlOf(ports.of("build-worker")),
    }),
  },
  { name: "build-worker", workspace: "services/bundler", program: "worker-main.js", hasDatabase: false, hasKey: false },
  {
    name: "ingress",
    workspace: "services/ingress",
    program: "main.js",
    hasDatabase: true,
    hasKey: true,
    tracePreload,
    broker: { publish: ["lend.*"], subscribe: ["lend.*"] },
    listens: (ports) => ({
      PUBLIC_HTTP_LISTEN: ports.of("public-http"),
      PUBLIC_GRPC_LISTEN: ports.of("public-grpc"),
      PROJECT_LISTEN: ports.of("projects"),
    }),
    variables: ({ ports, state }) => ({
      CONTEXT_URL: urlOf(ports.of("context")),
      RUNNER_URL: urlOf(ports.of("runner")),
      RUNNER_HTTP_URL: urlOf(ports.http("runner")),
      BUNDLER_URL: urlOf(ports.of("bundler")),
      BUNDLER_HTTP_URL: urlOf(ports.http("bundler")),
      TELEMETRY_URL: urlOf(ports.of("telemetry")),
      PUBLIC_BASE_URL: `http://localhost:${ports.of("public-http")}`,
      PROJECT_BASE: listenOn(ports.of("projects")),
      PROJECT_HOSTS: "paths",
      ITERATE_ADMIN_TOKEN_FILE: state.adminTokenFile,
    }),
  },
  {
    name: "telemetry",
    workspace: "services/telemetry",
    program: "main.js",
    hasDatabase: true,
    hasKey: true,
    tracePreload,
    broker: { publish: streamReader, subscribe: ["ctx.*"] },
    listens: (ports) => ({ OTLP_GRPC_LISTEN: ports.of("otlp-grpc"), OTLP_HTTP_LISTEN: ports.of("otlp-http") }),
  },
];

/** The listeners of a service: variable and port. */
export function listenersOf(row: ServiceRow, ports: Ports): Readonly<Record<string, number>> {
  return {
    GRPC_LISTEN: ports.of(row.name),
    HTTP_LISTEN: ports.http(row.name),
    ADMIN_LISTEN: ports.admin(row.name),
    ...row.listens?.(ports),
  };
}

/** How long a service may take to end in order, milliseconds: nobody waits longer for Ctrl-C. */
const drainMs = 10_000;

/** What a service is told, but for its credentials to Postgres and the broker. */
export function variablesOf(row: ServiceRow, { ports, state }: Surroundings): Record<string, string> {
  const listens = Object.entries(listenersOf(row, ports)).map(([name, port]) => [name, listenOn(port)] as const);
  return {
    ...Object.fromEntries(listens),
    ITERATE_TRUSTED_KEYS_FILE: state.trustedKeysFile,
    DRAIN_MS: String(drainMs),
    ...(row.hasKey ? { ITERATE_SERVICE_KEY_FILE: state.keyFile(row.name) } : {}),
    ...row.variables?.({ ports, state }),
  };
}
