/** One process of the context service: it keeps its address over restarts, and reaches its database through a proxy of its own. */
import { FaultProxy, freePort } from "@iterate-platform/testing";
import { ContextProcess, type Clients, type Deployment } from "../../services/context/test/context-process.js";

export interface PodSurroundings {
  readonly deployment: Deployment;
  readonly databaseUrl: string;
  readonly natsUrl: string;
  readonly env: Readonly<Record<string, string>>;
}

export class Pod {
  readonly #surroundings: PodSurroundings;
  readonly #port: number;
  #process: ContextProcess;
  /** Between it and its database. */
  readonly database: FaultProxy;
  /** Everything it wrote, over all its lives. */
  readonly #earlier: string[] = [];
  readonly clients: Clients;
  /** A client that calls as the runner: the feed is for services alone. */
  readonly runner: Clients;

  private constructor(surroundings: PodSurroundings, database: FaultProxy, port: number, process: ContextProcess) {
    this.#surroundings = surroundings;
    this.database = database;
    this.#port = port;
    this.#process = process;
    this.clients = process.as("ingress");
    this.runner = process.as("runner");
  }

  static async start(surroundings: PodSurroundings, env: Readonly<Record<string, string>> = {}): Promise<Pod> {
    const database = await FaultProxy.start(surroundings.databaseUrl);
    const port = await freePort();
    return new Pod(surroundings, database, port, await launch(surroundings, database, port, env));
  }

  get url(): string {
    return `127.0.0.1:${this.#port}`;
  }

  get process(): ContextProcess {
    return this.#process;
  }

  get lines(): readonly string[] {
    return [...this.#earlier, ...this.#process.lines];
  }

  /** Starts it again at its address, once it has ended. */
  async restart(env: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.#process.exited;
    this.#earlier.push(...this.#process.lines);
    this.#process = await launch(this.#surroundings, this.database, this.#port, env);
  }

  /** Ends it as the machine's end would. */
  async kill(): Promise<void> {
    this.#process.signal("SIGKILL");
    await this.#process.exited;
  }

  async stop(): Promise<void> {
    this.#process.signal("SIGCONT");
    for (const { context, feed, secret } of [this.clients, this.runner])
      for (const client of [context, feed, secret]) client.close();
    await this.#process.stop();
    this.database.stop();
  }
}

function launch(
  { deployment, databaseUrl, natsUrl, env: common }: PodSurroundings,
  database: FaultProxy,
  port: number,
  env: Readonly<Record<string, string>>,
): Promise<ContextProcess> {
  return ContextProcess.start({
    deployment,
    databaseUrl: database.url(databaseUrl),
    natsUrl,
    env: { GRPC_LISTEN: `127.0.0.1:${port}`, LOG_LEVEL: "info", ...common, ...env },
  });
}
