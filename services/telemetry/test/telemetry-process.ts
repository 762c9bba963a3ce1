/** The whole service as a process of its own, as it runs in production but from sources, and its callers. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TelemetryQueryServiceClient, type TelemetryQueryServiceService } from "@iterate-platform/proto/iterate/telemetry/v1/query";
import { createClient, type ServiceClient } from "@iterate-platform/service/grpc-client";
import { generateKeys, type KeyFiles } from "@iterate-platform/service/keys";
import { Trust } from "@iterate-platform/service/trust";
import { eventually } from "@iterate-platform/testing";
import { TiedChild, type Exit } from "@iterate-platform/testing/child";

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const startWithinMs = 30_000;

/** Keys of a small deployment. */
export class Deployment {
  readonly directory = mkdtempSync(join(tmpdir(), "iterate-telemetry-"));
  readonly #trusts = new Map<string, Trust>();
  files!: KeyFiles;

  static async make(): Promise<Deployment> {
    const deployment = new Deployment();
    const services = ["telemetry", "ingress", "runner"];
    deployment.files = await generateKeys({ directory: deployment.directory, services });
    for (const service of services) {
      const { trustedKeysFile } = deployment.files;
      deployment.#trusts.set(service, await Trust.load({ service, keyFile: deployment.files.keyFile(service), trustedKeysFile }));
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

type Ports = Readonly<Record<"admin" | "grpc" | "otlp-grpc" | "otlp-http", number>>;

export interface TelemetryProcessOptions {
  readonly deployment: Deployment;
  readonly databaseUrl: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Modules loaded before the service. */
  readonly preload?: readonly string[];
}

export class TelemetryProcess {
  readonly #clients: { close(): void }[] = [];

  private constructor(
    readonly options: TelemetryProcessOptions,
    readonly child: TiedChild,
    readonly ports: Ports,
    /** Everything it wrote. */
    readonly lines: readonly string[],
  ) {}

  static async start(options: TelemetryProcessOptions): Promise<TelemetryProcess> {
    const { deployment, databaseUrl, env = {}, preload = [] } = options;
    const lines: string[] = [];
    const serving = Promise.withResolvers<Ports | undefined>();
    const preloads = preload.flatMap((module) => ["--import", module]);
    const child = new TiedChild(
      process.execPath,
      ["--conditions=iterate-source", "--import", import.meta.resolve("tsx"), ...preloads, main],
      {
        env: {
          PATH: process.env["PATH"],
          DATABASE_URL: databaseUrl,
          ITERATE_TRUSTED_KEYS_FILE: deployment.files.trustedKeysFile,
          ITERATE_SERVICE_KEY_FILE: deployment.files.keyFile("telemetry"),
          OTLP_GRPC_LISTEN: "127.0.0.1:0",
          OTLP_HTTP_LISTEN: "127.0.0.1:0",
          DRAIN_MS: "8000",
          ...env,
        },
        onLine: (line) => {
          lines.push(line);
          const ports = portsIn(line);
          if (ports !== undefined) serving.resolve(ports);
        },
      },
    );
    const timer = setTimeout(() => serving.resolve(undefined), startWithinMs);
    void child.exited.then(() => serving.resolve(undefined));
    const ports = await serving.promise;
    clearTimeout(timer);
    if (ports !== undefined) return new TelemetryProcess(options, child, ports, lines);
    await child.stop([{ signal: "SIGKILL", waitMs: 2_000 }]);
    throw new Error(`telemetry did not start:\n${lines.join("\n")}`);
  }

  /** Where exporters send to. */
  get otlpGrpcUrl(): string {
    return `http://127.0.0.1:${this.ports["otlp-grpc"]}`;
  }

  otlpHttpUrl(signal: "traces" | "logs" | "metrics"): string {
    return `http://127.0.0.1:${this.ports["otlp-http"]}/v1/${signal}`;
  }

  /** A client that calls as `service`. */
  as(service: string): ServiceClient<TelemetryQueryServiceService> {
    const client = createClient(TelemetryQueryServiceClient, `127.0.0.1:${this.ports.grpc}`, {
      trust: this.options.deployment.trust(service),
      audience: "telemetry",
    });
    this.#clients.push(client);
    return client;
  }

  async post(
    signal: "traces" | "logs" | "metrics",
    body: Uint8Array<ArrayBuffer> | string,
    headers: Readonly<Record<string, string>>,
  ): Promise<Response> {
    return fetch(this.otlpHttpUrl(signal), { method: "POST", body, headers, signal: AbortSignal.timeout(10_000) });
  }

  /** One number of the metrics: of the line that begins with `name`; 0 when there is none. */
  async metric(name: string): Promise<number> {
    const response = await fetch(`http://127.0.0.1:${this.ports.admin}/metrics`, { signal: AbortSignal.timeout(5_000) });
    const line = (await response.text()).split("\n").find((candidate) => candidate.startsWith(name));
    return line === undefined ? 0 : Number(line.slice(line.lastIndexOf(" ") + 1));
  }

  /** Waits until nothing waits for the database. */
  async settled(): Promise<void> {
    await eventually(
      async () =>
        (await this.metric('iterate_telemetry_queue_bytes{signal="traces"')) +
          (await this.metric('iterate_telemetry_queue_bytes{signal="logs"')) ===
        0,
      {
        timeoutMs: 15_000,
      },
    );
  }

  /** Asks it to end, and resolves to how it did. */
  async stop(): Promise<Exit> {
    for (const client of this.#clients) client.close();
    await this.child.stop([
      { signal: "SIGTERM", waitMs: 12_000 },
      { signal: "SIGKILL", waitMs: 2_000 },
    ]);
    return this.child.exited;
  }
}

function portsIn(line: string): Ports | undefined {
  try {
    const { message, ports } = JSON.parse(line) as { message: string; ports?: Ports };
    return message === "serving" ? ports : undefined;
  } catch {
    return undefined;
  }
}
