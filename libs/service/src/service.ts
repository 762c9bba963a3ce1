/**
 * How a service runs: configuration, log, trust, database, broker, listeners and readiness in one order, `main` composes the rest, and
 * SIGTERM ends it in reverse within a bound. The same binary migrates its schema (`main.js migrate`) and prints its variables
 * (`main.js --print-config-docs`). Telemetry is started before everything by the preload `otel-register`.
 */
import { setLogger } from "@grpc/grpc-js";
import { fileURLToPath } from "node:url";
import { isCodedError } from "iterate/lib";
import { createAdminServer, Metrics, observeProcess, Readiness } from "./admin.js";
import { defineConfig, type ConfigDefinition, type ConfigSpec, type ConfigValues } from "./config.js";
import { failpoints } from "./failpoints.js";
import { createGrpcServer, type GrpcServer, type GrpcServerOptions } from "./grpc-server.js";
import { createLog, logLevels, type Log } from "./log.js";
import { migrate } from "./migrations.js";
import { connectBroker, type Broker } from "./nats.js";
import { createPool, type Pool } from "./postgres.js";
import { baseConfig, grpcConfig, natsConfig, postgresConfig, type BaseValues } from "./service-config.js";
import { Shutdown, type Listener, type StopStep } from "./shutdown.js";
import { telemetry } from "./telemetry.js";
import { Trust } from "./trust.js";

export type { BaseValues } from "./service-config.js";

export interface ServiceDefinition<Spec extends ConfigSpec> {
  readonly name: string;
  /** Variables beyond the common ones. */
  readonly config: ConfigDefinition<Spec>;
  /** Gives the service a pool (`runtime.pool`). */
  readonly postgres?: { readonly max: number };
  /** Folder of the numbered migrations, as a path or file URL; enables `migrate`. */
  readonly migrationsDir?: string | URL;
  /** Databases that `migrate` works on, direct URLs; by default the one of DATABASE_DIRECT_URL or DATABASE_URL. */
  readonly migrationUrls?: (config: ConfigValues<Spec> & BaseValues) => readonly string[];
  /** Gives the service a broker connection (`runtime.broker`). */
  readonly nats?: boolean;
  /** Options of the internal gRPC server (`runtime.grpc`); `false` for a service without one. */
  readonly grpc?: Partial<Omit<GrpcServerOptions, "name" | "listen" | "log" | "trust" | "observe">> | false;
  /**
   * Composes the service and returns; listeners start afterwards and loops run until `runtime.stopping` aborts. What it throws ends
   * the process.
   */
  readonly main: (runtime: Runtime<Spec>) => void | Promise<void>;
}

export interface Runtime<Spec extends ConfigSpec = ConfigSpec> {
  readonly name: string;
  readonly config: ConfigValues<Spec> & BaseValues;
  readonly log: Log;
  readonly trust: Trust;
  /** Throws when the service declares no `postgres`. */
  readonly pool: Pool;
  /** Throws when the service declares no `nats`. */
  readonly broker: Broker;
  /** Throws when the service declares `grpc: false`. */
  readonly grpc: GrpcServer;
  readonly metrics: Metrics;
  readonly readiness: Readiness;
  /** Aborts at SIGTERM: loops take no new work. */
  readonly stopping: AbortSignal;
  /** Starts `listener` once `main` has returned and drains it first when the service ends. */
  readonly addListener: (name: string, listener: Listener) => void;
  /** Runs when the service ends, after the listeners have drained, the last registered first, before pool and broker close. */
  readonly onStop: (name: string, step: StopStep) => void;
}

const databasePingMs = 5_000;
const databaseBoundMs = 30_000;
/** What the last log lines and spans get to leave the process. */
const flushBoundMs = 2_000;

/** Runs the service in this process until a signal ends it; never returns. Exit code 0 after an orderly end, else 1. */
export async function runService<Spec extends ConfigSpec>(definition: ServiceDefinition<Spec>): Promise<never> {
  const config = configOf(definition);
  const [command, ...rest] = process.argv.slice(2);
  if (command === "--print-config-docs") {
    process.stdout.write(config.docs());
    return exit(0);
  }
  const log = createLog(definition.name, { level: logLevels.find((level) => level === process.env["LOG_LEVEL"]) ?? "info" });
  endOnFaults(log);
  try {
    if (command === "migrate" && rest.length === 0) return await runMigrations(definition, config, log);
    if (command !== undefined) {
      log.error(
        `unknown command ${JSON.stringify([command, ...rest].join(" "))}; there are: migrate, --print-config-docs, and none to serve`,
      );
      return exit(2);
    }
    return await new Process(definition, config.load() as ConfigValues<Spec> & BaseValues, log).run();
  } catch (error) {
    log.error(isCodedError(error) ? `${definition.name} cannot start: ${error.message}` : `${definition.name} cannot start`, {
      error,
    });
    return exit(1);
  }
}

type AnyConfig = ConfigDefinition<ConfigSpec>;

/** The declared variables, and the common ones of what the service uses. */
function configOf<Spec extends ConfigSpec>(definition: ServiceDefinition<Spec>): AnyConfig {
  return defineConfig({
    ...(definition.postgres === undefined && definition.migrationsDir === undefined ? {} : postgresConfig.spec),
    ...(definition.nats === true ? natsConfig.spec : {}),
    ...(definition.grpc === false ? {} : grpcConfig.spec),
    ...definition.config.spec,
    ...baseConfig.spec,
  });
}

async function runMigrations<Spec extends ConfigSpec>(
  definition: ServiceDefinition<Spec>,
  config: AnyConfig,
  log: Log,
): Promise<never> {
  const { migrationsDir, migrationUrls } = definition;
  if (migrationsDir === undefined) {
    log.info("nothing to migrate: the service keeps no data");
    return exit(0);
  }
  // A migration needs its databases alone: a listener or key that is missing must not hold it up.
  const needed = migrationUrls === undefined ? defineConfig(postgresConfig.spec) : config;
  const values = needed.load() as ConfigValues<Spec> & BaseValues;
  const urls = migrationUrls?.(values) ?? [values.databaseDirectUrl ?? values.databaseUrl];
  const dir = migrationsDir instanceof URL ? fileURLToPath(migrationsDir) : migrationsDir;
  for (const databaseUrl of urls) {
    const applied = await migrate({ url: databaseUrl, dir, log });
    log.info(applied.length === 0 ? "the schema is up to date" : "the schema is migrated", { applied });
  }
  return exit(0);
}

class Process<Spec extends ConfigSpec> {
  readonly #definition: ServiceDefinition<Spec>;
  readonly #config: ConfigValues<Spec> & BaseValues;
  readonly #log: Log;
  readonly #readiness = new Readiness();
  readonly #metrics = new Metrics();
  readonly #stopping = new AbortController();
  readonly #shutdown: Shutdown;

  constructor(definition: ServiceDefinition<Spec>, config: ConfigValues<Spec> & BaseValues, log: Log) {
    this.#definition = definition;
    this.#config = config;
    this.#log = log;
    this.#shutdown = new Shutdown(log);
  }

  async run(): Promise<never> {
    const signalled = this.#signalled();
    // A signal that comes while starting ends what has been started so far.
    await Promise.race([this.#start(), signalled]);
    return await this.#end(await signalled);
  }

  async #start(): Promise<void> {
    const { name, main } = this.#definition;
    setLogger(grpcLogger(this.#log));
    if (failpoints.names.length > 0) this.#log.warn("failpoints are armed", { failpoints: failpoints.names });
    this.#observe();
    const trust = await Trust.load({
      service: name,
      keyFile: this.#config.serviceKeyFile,
      trustedKeysFile: this.#config.trustedKeysFile,
    });
    const admin = createAdminServer({
      name,
      listen: this.#config.adminListen,
      log: this.#log,
      readiness: this.#readiness,
      metrics: this.#metrics,
    });
    // Registered first, so probes are answered until everything else has ended.
    this.#shutdown.addStep("admin", (boundMs) => admin.drain(Math.min(boundMs, 500)));
    const adminPort = await admin.start();
    const runtime = this.#runtime(trust);
    await main(runtime);
    const ports: Record<string, number> = { admin: adminPort };
    for (const { name, listener } of this.#shutdown.listeners) ports[name] = await listener.start();
    this.#readiness.started();
    this.#log.info("serving", { ports });
  }

  #runtime(trust: Trust): Runtime<Spec> {
    const { name, postgres, nats, grpc } = this.#definition;
    const pool = postgres === undefined ? null : this.#openPool(postgres.max);
    const broker = nats === true ? this.#openBroker() : null;
    const server = grpc === false ? null : this.#openGrpc(trust, grpc ?? {});
    const declared = <T>(value: T | null, what: string): T => {
      if (value === null) throw new Error(`service ${name} declares no ${what}`);
      return value;
    };
    return {
      name,
      config: this.#config,
      log: this.#log,
      trust,
      get pool() {
        return declared(pool, "postgres");
      },
      get broker() {
        return declared(broker, "nats");
      },
      get grpc() {
        return declared(server, "grpc");
      },
      metrics: this.#metrics,
      readiness: this.#readiness,
      stopping: this.#stopping.signal,
      addListener: (name, listener) => this.#shutdown.addListener(name, listener),
      onStop: (name, step) => this.#shutdown.addStep(name, step),
    };
  }

  #openPool(max: number): Pool {
    const pool = createPool({
      url: this.#config.databaseUrl,
      applicationName: `iterate-${this.#definition.name}`,
      max,
      pooler: this.#config.databasePooler,
    });
    this.#shutdown.addStep("pool", (boundMs) => pool.end(boundMs));
    const progress = this.#readiness.progress("postgres", databaseBoundMs);
    let timer: NodeJS.Timeout | undefined;
    const ping = async (): Promise<void> => {
      await pool.query("select 1").then(
        () => progress.tick(),
        (error: unknown) => this.#log.warn("the database does not answer", { error }),
      );
      if (!isClosed) timer = setTimeout(() => void ping(), databasePingMs);
    };
    let isClosed = false;
    this.#shutdown.addStep("database ping", () => {
      isClosed = true;
      clearTimeout(timer);
    });
    void ping();
    this.#metrics.observedGauge(
      "db.client.connection.count",
      { description: "Database connections by state, and callers waiting for one." },
      () => Object.entries(pool.counts).map(([state, value]) => ({ value, labels: { state } })),
    );
    return pool;
  }

  #openBroker(): Broker {
    const { natsUrl, natsUser, natsPassword } = this.#config;
    const broker = connectBroker({
      url: natsUrl,
      name: `iterate-${this.#definition.name}`,
      log: this.#log,
      ...(natsUser === undefined ? {} : { user: natsUser }),
      ...(natsPassword === undefined ? {} : { password: natsPassword }),
    });
    this.#shutdown.addStep("broker", (boundMs) => broker.close(Math.min(boundMs, 2_000)));
    this.#metrics.observedGauge("iterate.broker.connected", { description: "1 while the broker is connected." }, () =>
      broker.status() === "connected" ? 1 : 0,
    );
    return broker;
  }

  #openGrpc(trust: Trust, options: Partial<GrpcServerOptions>): GrpcServer {
    const { name } = this.#definition;
    const duration = this.#metrics.histogram("rpc.server.call.duration", {
      description: "Duration of gRPC calls served.",
      unit: "s",
    });
    const server = createGrpcServer({
      ...options,
      name,
      listen: this.#config.grpcListen,
      log: this.#log,
      trust,
      observe: (method, code, ms) => duration.record(ms / 1_000, { rpc_method: method.slice(1), code }),
    });
    this.#metrics.observedGauge("rpc.server.calls.open", { description: "gRPC calls open now." }, () => server.inFlight);
    this.#shutdown.addListener("grpc", server);
    return server;
  }

  #observe(): void {
    const stop = observeProcess(this.#metrics, this.#readiness);
    this.#shutdown.addStep("process metrics", stop);
    const running = telemetry();
    if (running === null) return;
    for (const outcome of ["exported", "dropped", "failed"] as const) {
      this.#metrics.observedCounter(`iterate.telemetry.${outcome}`, { description: `Spans and log records ${outcome}.` }, () =>
        running.counts().map((counts) => ({ value: counts[outcome], labels: { signal: counts.signal } })),
      );
    }
  }

  /** Resolves at the first SIGTERM or SIGINT, also one that comes while starting; a second one ends the process at once. */
  #signalled(): Promise<NodeJS.Signals> {
    return new Promise((resolve) => {
      let isStopping = false;
      const take = (signal: NodeJS.Signals): void => {
        if (isStopping) {
          this.#log.warn(`ended at once by a second ${signal}`);
          process.exit(1);
        }
        isStopping = true;
        resolve(signal);
      };
      process.on("SIGTERM", take);
      process.on("SIGINT", take);
    });
  }

  async #end(signal: NodeJS.Signals): Promise<never> {
    this.#log.info("stopping", { signal, bound_ms: this.#config.drainMs });
    const startedAt = performance.now();
    this.#readiness.draining();
    this.#stopping.abort();
    const isClean = await this.#shutdown.run(this.#config.drainMs);
    this.#log.info("stopped", { ms: Math.round(performance.now() - startedAt), clean: isClean });
    return exit(isClean ? 0 : 1);
  }
}

/** A fault nobody caught leaves the process in an unknown state: it is logged and the process ends, to be started anew. */
function endOnFaults(log: Log): void {
  const end = (message: string) => (error: unknown) => {
    log.error(message, { error });
    void exit(1);
  };
  process.on("uncaughtException", end("a fault was not caught; the process ends"));
  process.on("unhandledRejection", end("a rejection was not handled; the process ends"));
}

async function exit(code: number): Promise<never> {
  await telemetry()?.shutdown(flushBoundMs);
  process.exit(code);
}

/** grpc-js logs by itself, in a format of its own. */
function grpcLogger(log: Log): Partial<Console> {
  const grpc = log.child({ library: "grpc-js" });
  const join = (parts: unknown[]): string => parts.map(String).join(" ");
  return {
    debug: (...parts: unknown[]) => grpc.debug(join(parts)),
    info: (...parts: unknown[]) => grpc.info(join(parts)),
    error: (...parts: unknown[]) => grpc.warn(join(parts)),
  };
}
