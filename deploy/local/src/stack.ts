/**
 * The whole platform on one machine: Postgres, NATS and every service as processes of this one, in the order a cluster would
 * bring them up. `make up` runs one; end-to-end tests run private ones on other ports and break them on purpose.
 */
import { chmodSync, existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { TiedChild } from "@iterate-platform/testing/child";
import { isPortTaken } from "@iterate-platform/testing/free-port";
import { startBroker, type Broker } from "./broker.js";
import { startDatabases, type Databases } from "./databases.js";
import { KeptServer } from "./kept-server.js";
import { LogFile } from "./log-file.js";
import { pickPortBase, portBaseFrom, Ports, urlOf, type Listener, type ServiceName } from "./ports.js";
import { prepareSecrets } from "./prepare.js";
import { listenersOf, serviceRows, variablesOf, type ServiceRow } from "./services.js";
import { holdState, removeState, repositoryRoot, stateFolderFrom, statePaths, type StatePaths } from "./state.js";
import { SupervisedProcess } from "./supervised-process.js";

export interface StackOptions {
  /** The state folder; `"temporary"` makes one that `stop` removes. ITERATE_STATE_DIR or `.iterate` unless told. */
  state?: string;
  /** The first port; `"auto"` picks a free range. ITERATE_PORT_BASE or 7400 unless told. */
  portBase?: number | "auto";
  /** The services to run: those ITERATE_SERVICES names, else every row whose source exists, unless told. */
  rows?: readonly ServiceRow[];
  /** More variables for a service, e.g. FAILPOINTS. */
  variables?: Partial<Record<ServiceName, Readonly<Record<string, string>>>>;
  /** Sees every line of every process. */
  onLine?: (source: string, line: string) => void;
  /** Told when a process died too often to be started again; the stack keeps the others running until `stop`. */
  onFailed?: (source: string, lastLines: string) => void;
}

/** A port the stack needs is taken by another process. */
export class StackPortBusyError extends Error {
  constructor(
    variable: string,
    owner: string,
    readonly port: number,
  ) {
    super(`port ${port}, ${variable} of ${owner}, is taken by another process. Stop it, or set ITERATE_PORT_BASE to another base.`);
    this.name = "StackPortBusyError";
  }
}

const readyWithinMs = 60_000;
const migrateWithinMs = 120_000;

/**
 * Starts a stack: ready when every service is.
 *
 * @throws StateHeldError when another runs on the same state; StackPortBusyError naming the variable; Error with the last lines of
 *   what did not come up. Nothing is left running then.
 */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  const isTemporary = options.state === "temporary";
  const folder = isTemporary ? temporaryState() : (options.state ?? stateFolderFrom(process.env));
  const state = statePaths(folder);
  const base = options.portBase === "auto" ? await pickPortBase() : (options.portBase ?? portBaseFrom(process.env));
  const rows = options.rows ?? rowsFrom(process.env);
  const release = holdState(state, base);
  const giveBack = (): void => (isTemporary ? removeState(folder) : release());
  const stack = new Stack(options, rows, state, new Ports(base), giveBack);
  try {
    await stack.start();
    return stack;
  } catch (error) {
    await stack.stop();
    throw error;
  }
}

/** Open to pass through, like any state folder: as root, Postgres runs as another account. */
function temporaryState(): string {
  const folder = mkdtempSync(join(tmpdir(), "iterate-stack-"));
  chmodSync(folder, 0o755);
  return folder;
}

/**
 * The rows that ITERATE_SERVICES names (`context,ingress`, or `none`); all that have a source in this clone when it is unset.
 *
 * @throws Error when it names no service.
 */
export function rowsFrom(env: NodeJS.ProcessEnv): readonly ServiceRow[] {
  const text = env.ITERATE_SERVICES;
  if (text === undefined || text === "") return presentRows();
  if (text === "none") return [];
  return text.split(",").map((name) => {
    const row = serviceRows.find((each) => each.name === name.trim());
    if (row !== undefined) return row;
    throw new Error(
      `ITERATE_SERVICES names ${JSON.stringify(name)}; the services are ${serviceRows.map((each) => each.name).join(", ")}`,
    );
  });
}

function presentRows(): ServiceRow[] {
  return serviceRows.filter((row) =>
    existsSync(resolve(repositoryRoot, row.workspace, "src", row.program.replace(/\.js$/, ".ts"))),
  );
}

export class Stack {
  readonly ports: Ports;
  readonly state: StatePaths;
  readonly rows: readonly ServiceRow[];
  readonly #options: StackOptions;
  readonly #giveBack: () => void;
  readonly #processes = new Map<ServiceName, SupervisedProcess>();
  readonly #logs = new Map<string, LogFile>();
  #databases: Databases | undefined;
  #broker: Broker | undefined;
  #postgres: KeptServer | undefined;
  #nats: KeptServer | undefined;
  #adminToken = "";
  #stopped: Promise<void> | undefined;

  /** Use `startStack`. */
  constructor(options: StackOptions, rows: readonly ServiceRow[], state: StatePaths, ports: Ports, giveBack: () => void) {
    this.#options = options;
    this.state = state;
    this.ports = ports;
    this.rows = rows;
    this.#giveBack = giveBack;
  }

  /** The token that makes its bearer the administrator of this stack. */
  get adminToken(): string {
    return this.#adminToken;
  }

  /** `http://127.0.0.1:<port>` of a listener: a service's internal gRPC, or one named for what it serves. */
  url(listener: Listener): string {
    return urlOf(this.ports.of(listener));
  }

  /** Where a service serves `/livez`, `/readyz` and `/metrics`. */
  adminUrl(service: ServiceName): string {
    return urlOf(this.ports.admin(service));
  }

  /** Where a service serves bodies to other services. */
  internalHttpUrl(service: ServiceName): string {
    return urlOf(this.ports.http(service));
  }

  /** The database URL of a service, or of the superuser. */
  databaseUrl(service: ServiceName | "admin"): string {
    const url = service === "admin" ? this.#databases?.adminUrl : this.#databases?.urls[service];
    if (url === undefined) throw new Error(`${service} has no database in this stack`);
    return url;
  }

  /** What a service connects to the broker with: NATS_URL, NATS_USER and NATS_PASSWORD; empty when it has no user there. */
  brokerVariables(service: ServiceName): Readonly<Record<string, string>> {
    return this.#broker?.variablesFor(this.#row(service)) ?? {};
  }

  /** The process of a service: its state, its id, its last lines. */
  process(service: ServiceName): SupervisedProcess {
    const found = this.#processes.get(service);
    if (found === undefined) throw new Error(`${service} is not in this stack: ${[...this.#processes.keys()].join(", ")} are`);
    return found;
  }

  /** Postgres, to be killed or taken down. */
  get postgres(): KeptServer {
    if (this.#postgres === undefined) throw new Error("this stack uses a Postgres that it did not start");
    return this.#postgres;
  }

  /** NATS, to be killed or taken down. */
  get nats(): KeptServer {
    if (this.#nats === undefined) throw new Error("this stack uses a NATS that it did not start");
    return this.#nats;
  }

  /** Ends a service as the kernel would (SIGKILL). It is started again by itself. */
  async kill(service: ServiceName): Promise<void> {
    await this.process(service).kill();
  }

  /** Lets a service drain and starts it again, with `variables` in place of those it was given more. Ready when it is. */
  async restart(service: ServiceName, variables?: Readonly<Record<string, string>>): Promise<void> {
    await this.process(service).stop();
    if (variables !== undefined) this.#processes.set(service, this.#supervise(this.#row(service), variables));
    this.process(service).start();
    await this.ready(service);
  }

  /** Waits until a service is ready (again). */
  async ready(service: ServiceName, timeoutMs = readyWithinMs): Promise<void> {
    await this.process(service).ready(timeoutMs);
  }

  /** Part of `startStack`. */
  async start(): Promise<void> {
    await this.#refuseBusyPorts();
    this.#adminToken = await prepareSecrets(this.state);
    const { state, rows } = this;
    const onLine = (source: string) => (line: string) => this.#line(source, line);
    await allOrNone([
      startDatabases({
        state,
        rows,
        port: this.ports.of("postgres"),
        externalUrl: process.env.ITERATE_POSTGRES_ADMIN_URL,
        onLine: onLine("postgres"),
      }).then((started) => {
        this.#databases = started;
        if (started.server) this.#postgres = new KeptServer(started.server, (lines) => this.#failed("postgres", lines));
      }),
      startBroker({ state, rows, port: this.ports.of("nats"), externalUrl: process.env.NATS_URL, onLine: onLine("nats") }).then(
        (started) => {
          this.#broker = started;
          if (started.server) this.#nats = new KeptServer(started.server, (lines) => this.#failed("nats", lines));
        },
      ),
    ]);
    await allOrNone(rows.filter((row) => row.hasDatabase).map((row) => this.#migrate(row)));
    for (const row of rows) {
      const supervised = this.#supervise(row, this.#options.variables?.[row.name] ?? {});
      this.#processes.set(row.name, supervised);
      supervised.start();
    }
    await allOrNone(rows.map((row) => this.ready(row.name)));
  }

  /** Stops the services, then the broker and the database. Bounded: 20 s for the services, 10 s for the others. Idempotent. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    await Promise.allSettled([...this.#processes.values()].map((each) => each.stop()));
    await Promise.allSettled([this.#nats?.stop(), this.#postgres?.stop()]);
    await Promise.all([...this.#logs.values()].map((log) => log.close()));
    this.#giveBack();
  }

  #row(service: ServiceName): ServiceRow {
    const row = this.rows.find(({ name }) => name === service);
    if (row === undefined) throw new Error(`${service} is not in this stack: ${this.rows.map(({ name }) => name).join(", ")} are`);
    return row;
  }

  #supervise(row: ServiceRow, variables: Readonly<Record<string, string>>): SupervisedProcess {
    const program = this.#program(row);
    return new SupervisedProcess({
      name: row.name,
      ...program,
      env: this.#environment(row, variables),
      readyUrl: `${this.adminUrl(row.name)}/readyz`,
      onLine: (line) => this.#line(row.name, line),
      onFailed: (lines) => this.#failed(row.name, lines),
    });
  }

  #program(row: ServiceRow): { command: string; args: string[]; cwd: string } {
    const cwd = resolve(repositoryRoot, row.workspace);
    const file = join(cwd, "dist", row.program);
    if (!existsSync(file)) throw new Error(`${row.name} is not built: ${file} is missing. Run \`make setup\`.`);
    const preload = this.#isTraced(row) ? ["--import", resolve(repositoryRoot, row.tracePreload ?? "")] : [];
    return { command: process.execPath, args: ["--enable-source-maps", ...(row.nodeArgs ?? []), ...preload, file], cwd };
  }

  /** Whether there is somebody to send its telemetry to. */
  #isTraced(row: ServiceRow): boolean {
    return row.tracePreload !== undefined && this.rows.some(({ name }) => name === "telemetry");
  }

  /** Nothing of this process's environment but what a program needs to run: a service knows what its row says. */
  #environment(row: ServiceRow, variables: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
    const inherited = Object.fromEntries(
      ["PATH", "HOME", "TMPDIR", "LANG", "LOG_LEVEL"].flatMap((name) =>
        process.env[name] === undefined ? [] : [[name, process.env[name]]],
      ),
    );
    const database = this.#databases?.urls[row.name];
    return {
      ...inherited,
      ...variablesOf(row, { ports: this.ports, state: this.state }),
      ...(database === undefined ? {} : { DATABASE_URL: database }),
      ...this.#broker?.variablesFor(row),
      ...(this.#isTraced(row) ? { OTEL_EXPORTER_OTLP_ENDPOINT: this.url("otlp-grpc") } : {}),
      ...variables,
    };
  }

  /** Runs the service's own `migrate`, as the init container of its Deployment does. */
  async #migrate(row: ServiceRow): Promise<void> {
    const { command, args, cwd } = this.#program(row);
    const child = new TiedChild(command, [...args, "migrate"], {
      cwd,
      // Nobody receives telemetry yet: starting it and giving up on sending would cost seconds.
      env: this.#environment(row, { OTEL_EXPORTER_OTLP_ENDPOINT: "" }),
      onLine: (line) => this.#line(row.name, line),
    });
    const timer = setTimeout(() => child.signal("SIGKILL"), migrateWithinMs);
    const { code } = await child.exited.finally(() => clearTimeout(timer));
    if (code !== 0) throw new Error(`the migrations of ${row.name} failed; its last lines:\n${child.lastLines()}`);
  }

  async #refuseBusyPorts(): Promise<void> {
    const wanted: { variable: string; owner: string; port: number }[] = this.rows.flatMap((row) =>
      Object.entries(listenersOf(row, this.ports)).map(([variable, port]) => ({ variable, owner: row.name, port })),
    );
    if (process.env.NATS_URL === undefined) wanted.push({ variable: "NATS_URL", owner: "the broker", port: this.ports.of("nats") });
    if (process.env.ITERATE_POSTGRES_ADMIN_URL === undefined) {
      wanted.push({ variable: "DATABASE_URL", owner: "the database", port: this.ports.of("postgres") });
    }
    for (const { variable, owner, port } of wanted) {
      if (await isPortTaken(port)) throw new StackPortBusyError(variable, owner, port);
    }
  }

  #line(source: string, line: string): void {
    let log = this.#logs.get(source);
    if (log === undefined) {
      log = new LogFile(join(this.state.logsFolder, `${source}.log`));
      this.#logs.set(source, log);
    }
    log.write(line);
    this.#options.onLine?.(source, line);
  }

  #failed(source: string, lastLines: string): void {
    this.#options.onFailed?.(source, lastLines);
  }
}

/** Waits for all even when one fails, so that nothing still starts while its surroundings are taken down; throws the first failure. */
async function allOrNone(promises: readonly Promise<void>[]): Promise<void> {
  const outcomes = await Promise.allSettled(promises);
  const failure = outcomes.find((outcome) => outcome.status === "rejected");
  if (failure !== undefined) throw failure.reason;
}
