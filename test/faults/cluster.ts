/**
 * What a fault is injected into: a Postgres and a NATS of its own, some pods of the context service, and the checks afterwards. Declared
 * at the top of a test file; every test of the file gives it a load of its own.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import {
  startNats,
  startPostgres,
  startPrivatePostgres,
  type NatsOptions,
  type PrivatePostgres,
  type TestDatabase,
  type TestNats,
  type TestPostgres,
} from "@iterate-platform/testing";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { Deployment } from "../../services/context/test/context-process.js";
import type { RunnerBooks } from "./history.js";
import { violations } from "./invariants.js";
import { Load, type LoadOptions } from "./load.js";
import { Pod } from "./pod.js";
import { newSeed } from "./random.js";
import { truthOf } from "./truth.js";

export interface ClusterOptions {
  /** 2 unless told. */
  readonly pods?: number;
  /** `private` when the fault is the database server's own. */
  readonly postgres?: "shared" | "private";
  readonly nats?: NatsOptions;
  /** Variables of every pod. */
  readonly env?: Readonly<Record<string, string>>;
}

export const migrationsDir = fileURLToPath(new URL("../../services/context/migrations", import.meta.url));

export class Cluster {
  readonly #options: ClusterOptions;
  readonly #loads: Load[] = [];
  readonly secret = `secret-${uuidv7()}`;
  deployment!: Deployment;
  postgres!: TestPostgres;
  database!: TestDatabase;
  nats!: TestNats;
  pods: Pod[] = [];

  constructor(options: ClusterOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { pods = 2, postgres = "shared", nats } = this.#options;
    [this.deployment, this.postgres, this.nats] = await Promise.all([
      Deployment.make(),
      postgres === "private" ? startPrivatePostgres() : startPostgres(),
      startNats({ jetstream: true, ...nats }),
    ]);
    this.database = await this.postgres.createDatabase();
    await migrate({ url: this.database.url, dir: migrationsDir });
    this.pods = await Promise.all(Array.from({ length: pods }, () => this.#pod()));
    // What must never be seen again is in use from the start.
    const set = { owner: newId("prj"), path: "/secrets/a", material: Buffer.from(this.secret), origins: [] };
    await this.pods[0]?.clients.secret.set(set);
  }

  /** Server of this cluster's own. @throws Error when it is shared. */
  get server(): PrivatePostgres {
    if (!("kill" in this.postgres)) throw new Error("the database server is shared with other suites");
    return this.postgres as PrivatePostgres;
  }

  pod(index: number): Pod {
    return this.pods[index]!;
  }

  /** One pod more, on the cluster's database unless told. */
  async addPod(env: Readonly<Record<string, string>> = {}, databaseUrl = this.database.url): Promise<Pod> {
    const pod = await this.#pod(env, databaseUrl);
    this.pods.push(pod);
    return pod;
  }

  async endPod(pod: Pod): Promise<void> {
    this.pods.splice(this.pods.indexOf(pod), 1);
    await pod.stop();
  }

  async endPods(): Promise<void> {
    await Promise.all([...this.pods].map((pod) => this.endPod(pod)));
  }

  /** Clients on all pods; `doors` in their place when given. */
  load(options: Partial<LoadOptions> = {}): Load {
    const load = new Load({
      doors: this.pods.map(({ clients }) => clients),
      feedDoors: this.pods.map(({ runner }) => runner),
      seed: newSeed(),
      ...options,
    });
    this.#loads.push(load);
    return load;
  }

  /** Ends the load and expects every promise to hold, through every pod. */
  async expectAllPromises(load: Load, runner: RunnerBooks | null = null, databaseUrls = [this.database.url]): Promise<void> {
    await load.stop();
    const truth = await truthOf(load.places, {
      clients: this.pods.map(({ clients }) => clients),
      databaseUrls,
      writings: this.pods.map(({ lines }, index) => ({ where: `the output of pod ${index}`, text: lines.join("\n") })),
      secrets: this.secrets(),
      runner,
    });
    expect(violations(load.history, truth), load.felt()).toEqual([]);
  }

  /** What must be in nothing that is written. */
  secrets(): { readonly what: string; readonly text: string }[] {
    const { keys } = JSON.parse(this.deployment.secretKeys) as { keys: Record<string, string> };
    const privateKey = readFileSync(this.deployment.files.keyFile("context"), "utf8");
    const { d } = JSON.parse(privateKey) as { d?: string };
    return [
      { what: "a secret of a project", text: this.secret },
      { what: "a key-encryption key", text: Object.values(keys)[0]! },
      { what: "the password of the database", text: new URL(this.database.url).password },
      ...(d === undefined ? [] : [{ what: "a private key", text: d }]),
      ...(this.#options.nats?.users ?? []).map(({ user, password }) => ({ what: `the password of ${user}`, text: password })),
    ];
  }

  /** What the pods complained of last, for a test that failed. */
  complaints(): string {
    const complaints = this.pods.flatMap(({ lines }, index) =>
      lines.filter((line) => /"level":"(error|warn)"/.test(line)).map((line) => `pod ${index}: ${line}`),
    );
    return complaints.slice(-8).join("\n");
  }

  async stop(): Promise<void> {
    await Promise.allSettled(this.#loads.map((load) => load.abandon()));
    await this.endPods();
    await this.nats?.stop();
    await this.database?.drop();
    await this.postgres?.stop();
    this.deployment?.remove();
  }

  #pod(env: Readonly<Record<string, string>> = {}, databaseUrl = this.database.url): Promise<Pod> {
    const surroundings = {
      deployment: this.deployment,
      databaseUrl,
      natsUrl: this.nats.url,
      env: this.#options.env ?? {},
    };
    return Pod.start(surroundings, env);
  }
}

/** A cluster for the tests of this file. */
export function useCluster(options: ClusterOptions = {}): Cluster {
  const cluster = new Cluster(options);
  beforeAll(() => cluster.start(), 120_000);
  afterEach(({ task }) => {
    if (task.result?.state === "fail") process.stderr.write(`${cluster.complaints()}\n`);
  });
  afterAll(() => cluster.stop(), 60_000);
  return cluster;
}
