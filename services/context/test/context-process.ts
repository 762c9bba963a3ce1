/** The whole service as a process of its own, as it runs in production but from sources, and clients of it. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ContextServiceClient, type ContextServiceService } from "@iterate-platform/proto/iterate/context/v1/context";
import { FeedServiceClient, type FeedServiceService } from "@iterate-platform/proto/iterate/context/v1/feed";
import { SecretServiceClient, type SecretServiceService } from "@iterate-platform/proto/iterate/context/v1/secret";
import { createClient, type ServiceClient } from "@iterate-platform/service/grpc-client";
import { generateKeys, type KeyFiles } from "@iterate-platform/service/keys";
import { Trust } from "@iterate-platform/service/trust";
import type { Exit } from "@iterate-platform/testing/child";
import { ServiceProcess } from "@iterate-platform/testing/service-process";

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));

/** Keys of a small deployment: services that may call, and one that may not. */
export class Deployment {
  readonly directory = mkdtempSync(join(tmpdir(), "iterate-context-"));
  readonly secretKeys = JSON.stringify({ primary: "k1", keys: { k1: randomBytes(32).toString("base64") } });
  readonly #trusts = new Map<string, Trust>();
  files!: KeyFiles;

  static async make(): Promise<Deployment> {
    const deployment = new Deployment();
    const services = ["context", "ingress", "runner", "bundler", "telemetry"];
    deployment.files = await generateKeys({ directory: deployment.directory, services });
    for (const service of services) {
      deployment.#trusts.set(
        service,
        await Trust.load({
          service,
          keyFile: deployment.files.keyFile(service),
          trustedKeysFile: deployment.files.trustedKeysFile,
        }),
      );
    }
    return deployment;
  }

  trust(service: string): Trust {
    return this.#trusts.get(service)!;
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export interface ContextProcessOptions {
  readonly deployment: Deployment;
  readonly databaseUrl: string;
  readonly natsUrl: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Arguments of Node; the service from its sources when absent. */
  readonly program?: readonly string[];
}

export interface Clients {
  readonly context: ServiceClient<ContextServiceService>;
  readonly feed: ServiceClient<FeedServiceService>;
  readonly secret: ServiceClient<SecretServiceService>;
}

export class ContextProcess {
  readonly #deployment: Deployment;
  readonly #process: ServiceProcess;
  readonly #clients: { close(): void }[] = [];

  private constructor(deployment: Deployment, process: ServiceProcess) {
    this.#deployment = deployment;
    this.#process = process;
  }

  static async start({ deployment, databaseUrl, natsUrl, env = {}, program }: ContextProcessOptions): Promise<ContextProcess> {
    const started = await ServiceProcess.start(program ?? main, {
      DATABASE_URL: databaseUrl,
      NATS_URL: natsUrl,
      ITERATE_TRUSTED_KEYS_FILE: deployment.files.trustedKeysFile,
      ITERATE_SERVICE_KEY_FILE: deployment.files.keyFile("context"),
      ITERATE_SECRET_KEYS: deployment.secretKeys,
      LOG_LEVEL: "debug",
      DRAIN_MS: "10000",
      ...env,
    });
    return new ContextProcess(deployment, started);
  }

  /** Everything it wrote. */
  get lines(): readonly string[] {
    return this.#process.lines;
  }

  get isRunning(): boolean {
    return this.#process.isRunning;
  }

  /** Resolves to how it ended, whatever the reason. */
  get exited(): Promise<Exit> {
    return this.#process.exited;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }

  get grpcUrl(): string {
    return `127.0.0.1:${this.#process.ports["grpc"]}`;
  }

  /** Clients that call as `service`. */
  as(service: string): Clients {
    const options = {
      trust: this.#deployment.trust(service),
      audience: "context",
    };
    const clients = {
      context: createClient(ContextServiceClient, this.grpcUrl, options),
      feed: createClient(FeedServiceClient, this.grpcUrl, options),
      secret: createClient(SecretServiceClient, this.grpcUrl, options),
    };
    this.#clients.push(...Object.values(clients));
    return clients;
  }

  /** Answers of the listener for operators. */
  async admin(path: string): Promise<{ readonly status: number; readonly text: string }> {
    const response = await fetch(`http://127.0.0.1:${this.#process.ports["admin"]}${path}`, { signal: AbortSignal.timeout(5_000) });
    return { status: response.status, text: await response.text() };
  }

  /** One number of the metrics: of the first line that begins with `name`. */
  async metric(name: string): Promise<number> {
    const line = (await this.admin("/metrics")).text.split("\n").find((candidate) => candidate.startsWith(name));
    if (line === undefined) throw new Error(`there is no metric ${name}`);
    return Number(line.slice(line.lastIndexOf(" ") + 1));
  }

  /** Asks it to end, and resolves to how it did. */
  terminate(withinMs = 15_000): Promise<Exit> {
    return this.#process.end("SIGTERM", withinMs);
  }

  /** Ends it as a power cut would. */
  kill(): Promise<Exit> {
    return this.#process.end("SIGKILL", 2_000);
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.terminate(5_000);
  }
}
