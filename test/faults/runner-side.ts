/** Runners that deliver what the load appends, and their books: which is how far deliveries, their results and their leases can be told. */
import { fileURLToPath } from "node:url";
import { newId, partitionOf } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { eventually, type TestDatabase } from "@iterate-platform/testing";
import { ServiceProcess } from "@iterate-platform/testing/service-process";
import type { Cluster } from "./cluster.js";
import type { DeliveryRow, LeaseRow, RunnerBooks, SeenEvent } from "./history.js";
import { nameOf, placeOf, type Place } from "./load.js";
import { select, wholeLog } from "./truth.js";

const sources = new URL("../../services/runner/", import.meta.url);
const program = fileURLToPath(new URL("src/runner-process.fixture.ts", sources));
export const runnerSources = fileURLToPath(new URL("src", sources));
/** The others stand still, so that a loaded machine has less to do. */
const partitions = 16;

export class RunnerSide {
  readonly #cluster: Cluster;
  readonly #started: ServiceProcess[] = [];
  readonly database: TestDatabase;

  private constructor(cluster: Cluster, database: TestDatabase) {
    this.#cluster = cluster;
    this.database = database;
  }

  static async prepare(cluster: Cluster): Promise<RunnerSide> {
    const database = await cluster.postgres.createDatabase();
    await migrate({ url: database.url, dir: fileURLToPath(new URL("migrations", sources)) });
    await select(
      database.url,
      `update partition_lease set pod = 'elsewhere', expires_at = 'infinity' where partition >= ${partitions}`,
    );
    return new RunnerSide(cluster, database);
  }

  /** Starts a runner with the processor `counter`; it may be made to die at a failpoint, so nobody waits for it to serve. */
  runner(env: Readonly<Record<string, string>> = {}): ServiceProcess {
    const { files } = this.#cluster.deployment;
    const started = ServiceProcess.spawn(program, {
      DATABASE_URL: this.database.url,
      NATS_URL: this.#cluster.nats.url,
      CONTEXT_URL: `http://${this.#cluster.pod(0).url}`,
      GRPC_LISTEN: "127.0.0.1:0",
      ITERATE_SERVICE_KEY_FILE: files.keyFile("runner"),
      ITERATE_TRUSTED_KEYS_FILE: files.trustedKeysFile,
      LEASE_TTL_MS: "2000",
      FEED_SWEEP_MS: "1000",
      DELIVERY_RETRY_BASE_MS: "20",
      ...env,
    });
    this.#started.push(started);
    return started;
  }

  /** Contexts of one project among the partitions that runners take. */
  places(count: number): Place[] {
    const owner = newId("prj");
    const places: Place[] = [];
    for (let n = 0; places.length < count; n += 1) {
      const place = { owner, path: `/delivered/${n}` };
      if (partitionOf(owner, place.path) < partitions) places.push(place);
    }
    return places;
  }

  /** Waits until every tick of these contexts is answered and nothing is owed. @throws Error with what is missing. */
  async settled(places: readonly Place[]): Promise<RunnerBooks> {
    return eventually(
      async () => {
        const books = await this.#books(places);
        for (const [context, consumed] of books.consumed) {
          const emitted = books.emitted.get(context)?.length ?? 0;
          if (emitted < consumed.length) throw new Error(`${emitted} of ${consumed.length} events of ${context} are answered`);
        }
        if (books.deliveries.some(({ owed }) => owed > 0)) throw new Error("events are owed");
        if (books.leases.some(({ pod }) => pod === null || !books.alive.includes(pod)))
          throw new Error("partitions have no living owner");
        return books;
      },
      { timeoutMs: 45_000, intervalMs: 200 },
    );
  }

  get lines(): readonly string[] {
    return this.#started.flatMap(({ lines }) => lines);
  }

  async end(): Promise<void> {
    await Promise.all(this.#started.splice(0).map((one) => one.end("SIGKILL")));
  }

  async stop(): Promise<void> {
    await this.end();
    await this.database.drop();
  }

  async #books(places: readonly Place[]): Promise<RunnerBooks> {
    const [clients] = this.#cluster.pods.map((pod) => pod.clients);
    const consumed = new Map<string, number[]>();
    const emitted = new Map<string, number[]>();
    for (const place of places) {
      const log: readonly SeenEvent[] = await wholeLog(clients!, place);
      consumed.set(
        nameOf(place),
        log.filter(({ type }) => type === "tick").map(({ offset }) => offset),
      );
      emitted.set(
        nameOf(place),
        log.filter(({ type }) => type === "ticked").map(({ payload }) => (JSON.parse(payload) as { of: number }).of),
      );
    }
    const rows = await select<DeliveryRow>(this.database.url, deliveryRows);
    const before = await select<LeaseRow & { until: string }>(this.database.url, leaseRows, partitions);
    const alive = await this.#renewing(before);
    return {
      deliveries: rows.filter(({ context }) => places.some((place) => nameOf(place) === nameOf(placeOf(context)))),
      consumed,
      emitted,
      leases: await select<LeaseRow>(this.database.url, leaseRows, partitions),
      alive,
    };
  }

  /** Who lives renews: the owners whose leases go on from here. */
  async #renewing(
    before: readonly { readonly partition: number; readonly pod: string | null; readonly until: string }[],
  ): Promise<string[]> {
    const held = new Set(before.flatMap(({ pod }) => pod ?? []));
    if (held.size === 0) return [];
    return eventually(
      async () => {
        const now = await select<{ pod: string | null; partition: number; until: string }>(
          this.database.url,
          leaseRows,
          partitions,
        );
        const renewed = new Set(
          now.flatMap(({ pod, partition, until }) =>
            pod !== null && before.some((one) => one.partition === partition && one.pod === pod && one.until !== until)
              ? [pod]
              : [],
          ),
        );
        return renewed.size === 0 ? null : [...renewed];
      },
      { timeoutMs: 5_000, intervalMs: 100 },
    );
  }
}

const deliveryRows = `
  select owner || ' ' || path as context, status, cursor::int as cursor,
         (extract(epoch from due_at - now()) * 1000)::int as "dueInMs",
         (select count(*)::int from outbox where delivery_id = delivery.id) as owed
    from delivery where name = 'counter'`;

const leaseRows = `
  select partition::int as partition, pod, (extract(epoch from expires_at - now()) * 1000)::int as "leftMs", expires_at::text as until
    from partition_lease where partition < $1 order by partition`;
