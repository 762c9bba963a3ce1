/** A platform for the runner's tests: the real context service as a process of its own on a real database and broker, and clients of it. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ContextServiceClient } from "@iterate-platform/proto/iterate/context/v1/context";
import { ContextLog } from "@iterate-platform/service/context-log";
import { createClient } from "@iterate-platform/service/grpc-client";
import { newId, partitionOf } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool } from "@iterate-platform/service/postgres";
import { generateKeys, Trust } from "@iterate-platform/service/trust";
import { eventually, startNats, startPostgres, type TestDatabase, type TestNats } from "@iterate-platform/testing";
import { ServiceProcess } from "@iterate-platform/testing/service-process";
import type { EventInput, StreamEvent } from "iterate/api";
import { itx } from "iterate/events";

const services = new URL("../../", import.meta.url);

/** Partitions that runners of a test take; the others stand still, so that a loaded machine has less to do. */
export const takenPartitions = 16;

/** Runs one statement on a connection of its own. */
export async function query<Row = Record<string, unknown>>(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const pool = createPool({ url, applicationName: "test", max: 1 });
  try {
    return (await pool.query<Row>(text, values)).rows;
  } finally {
    await pool.end();
  }
}

/** Starts `entry` (absolute, or below services/) and resolves once it serves. */
export function startService(entry: string, env: Readonly<Record<string, string>>): Promise<ServiceProcess> {
  return ServiceProcess.start(new URL(entry, services).pathname, { LOG_LEVEL: "info", ...env });
}

export interface Keys {
  readonly keyFile: (service: string) => string;
  readonly trustedKeysFile: string;
  trustOf(service: string): Promise<Trust>;
}

export class TestPlatform {
  readonly contextDatabase: TestDatabase;
  readonly runnerDatabase: TestDatabase;
  readonly nats: TestNats;
  readonly keys: Keys;
  readonly #directory: string;
  readonly #contextEnv: Readonly<Record<string, string>>;
  readonly #client;
  context: ServiceProcess;
  readonly contextUrl: string;

  private constructor(parts: {
    contextDatabase: TestDatabase;
    runnerDatabase: TestDatabase;
    nats: TestNats;
    keys: Keys;
    directory: string;
    context: ServiceProcess;
    contextEnv: Readonly<Record<string, string>>;
    trust: Trust;
  }) {
    this.#contextEnv = parts.contextEnv;
    this.contextDatabase = parts.contextDatabase;
    this.runnerDatabase = parts.runnerDatabase;
    this.nats = parts.nats;
    this.keys = parts.keys;
    this.#directory = parts.directory;
    this.context = parts.context;
    this.contextUrl = `http://127.0.0.1:${parts.context.ports["grpc"]}`;
    this.#client = createClient(ContextServiceClient, this.contextUrl, { trust: parts.trust, audience: "context" });
  }

  /**
   * @param logDatabase where the log is kept, a database of its own when absent.
   * @param env more of the context service.
   */
  static async start(logDatabase?: TestDatabase, env: Readonly<Record<string, string>> = {}): Promise<TestPlatform> {
    const directory = await mkdtemp(join(tmpdir(), "iterate-runner-test-"));
    const postgres = await startPostgres();
    const [contextDatabase, runnerDatabase, nats, files] = await Promise.all([
      logDatabase ?? postgres.createDatabase(),
      postgres.createDatabase(),
      startNats({ jetstream: true }),
      generateKeys({ directory, services: ["context", "runner", "runner-isolate", "ingress", "bundler"] }),
    ]);
    await Promise.all([
      migrate({ url: contextDatabase.url, dir: new URL("context/migrations", services).pathname }),
      migrate({ url: runnerDatabase.url, dir: new URL("runner/migrations", services).pathname }),
    ]);
    await query(
      runnerDatabase.url,
      `update partition_lease set pod = 'elsewhere', expires_at = 'infinity' where partition >= ${takenPartitions}`,
    );
    const keys: Keys = {
      ...files,
      trustOf: (service) => Trust.load({ service, keyFile: files.keyFile(service), trustedKeysFile: files.trustedKeysFile }),
    };
    const contextEnv = {
      DATABASE_URL: contextDatabase.url,
      NATS_URL: nats.url,
      GRPC_LISTEN: "127.0.0.1:0",
      RETENTION_ROUND_MS: "200",
      RETENTION_SWEEP_MS: "200",
      ITERATE_SERVICE_KEY_FILE: keys.keyFile("context"),
      ITERATE_TRUSTED_KEYS_FILE: keys.trustedKeysFile,
      ITERATE_SECRET_KEYS: JSON.stringify({ primary: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
      ...env,
    };
    const context = await startService("context/src/main.ts", contextEnv);
    return new TestPlatform({
      contextEnv,
      contextDatabase,
      runnerDatabase,
      nats,
      keys,
      directory,
      context,
      trust: await keys.trustOf("ingress"),
    });
  }

  /** A project of its own, with these contexts among the partitions that runners of the test take. */
  project(...paths: readonly string[]): TestProject {
    const wanted = paths.length === 0 ? ["/a"] : paths;
    let owner = newId("prj");
    while (wanted.some((path) => partitionOf(owner, path) >= takenPartitions)) owner = newId("prj");
    return new TestProject((path) => this.log(owner, path), owner);
  }

  /** The log of a context, as the ingress service reaches it. */
  log(owner: string, path: string): ContextLog {
    return new ContextLog(this.#client, { owner, path }, {});
  }

  /** Starts the context service again, at the address it had; end it first. */
  async startContext(): Promise<void> {
    this.context = await startService("context/src/main.ts", { ...this.#contextEnv, GRPC_LISTEN: new URL(this.contextUrl).host });
    await eventually(async () => {
      await this.log("global", "/").read();
      return true;
    });
  }

  async stop(): Promise<void> {
    this.#client.close();
    await this.context.end();
    await this.nats.stop();
    await Promise.all([this.contextDatabase.drop(), this.runnerDatabase.drop()]);
    await rm(this.#directory, { recursive: true, force: true });
  }
}

/** One project's contexts in a test. */
export class TestProject {
  readonly owner: string;
  readonly #logOf: (path: string) => ContextLog;

  constructor(logOf: (path: string) => ContextLog, owner: string) {
    this.owner = owner;
    const logs = new Map<string, ContextLog>();
    this.#logOf = (path) => {
      const log = logs.get(path) ?? logOf(path);
      logs.set(path, log);
      return log;
    };
  }

  append(path: string, ...events: EventInput[]): Promise<StreamEvent[]> {
    return this.#logOf(path).append(events);
  }

  /** Every event of the context, or those of one type. */
  async events(path: string, type?: string): Promise<StreamEvent[]> {
    const found: StreamEvent[] = [];
    for (let afterOffset = 0; ;) {
      const page = await this.#logOf(path).read({ afterOffset, limit: 1_000, ...(type === undefined ? {} : { types: [type] }) });
      found.push(...page.events);
      if (page.atHead) return found;
      afterOffset = page.scannedThroughOffset;
    }
  }

  /** Subscribes a native processor. */
  async subscribe(
    path: string,
    name: string,
    options: { processor?: string; consumes?: string[]; afterOffset?: number } = {},
  ): Promise<StreamEvent> {
    const { processor = name, ...rest } = options;
    const target = ["itx", "builtins", "processors", ["get", processor]];
    const [configured] = await this.append(path, { type: itx.subscriptionConfigured.type, payload: { name, target, ...rest } });
    return configured!;
  }
}
