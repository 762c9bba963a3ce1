import { createLog } from "@iterate-platform/service/log";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { eventually, FaultProxy, useTestDatabase } from "@iterate-platform/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Lease, PartitionWorker } from "./lease.js";
import { LeaseKeeper, type LeaseTimes } from "./lease-keeper.js";

const times: LeaseTimes = { ttlMs: 1_200, renewMs: 150, balanceMs: 60, marginMs: 300, drainMs: 500 };
const database = useTestDatabase();
let db: Pool;
const log = createLog("test", { write: () => undefined });

beforeAll(async () => {
  await migrate({ url: database.url, dir: new URL("../../migrations", import.meta.url).pathname });
  db = createPool({ url: database.url, applicationName: "test", max: 8 });
});
afterAll(() => db.end());

const keepers: LeaseKeeper[] = [];
const pools: Pool[] = [];
beforeEach(() => db.query("update partition_lease set pod = null, expires_at = '-infinity'; delete from pod"));
afterEach(async () => {
  await Promise.all(keepers.splice(0).map((keeper) => keeper.stop()));
  await Promise.all(pools.splice(0).map((pool) => pool.end(0)));
});

/** Notes what it was told. */
class Worker implements PartitionWorker {
  readonly started: Lease[] = [];
  readonly drained: Lease[] = [];
  constructor(readonly onDrain: (lease: Lease) => Promise<void> = async () => undefined) {}
  start(lease: Lease): void {
    this.started.push(lease);
  }
  drain(lease: Lease): Promise<void> {
    this.drained.push(lease);
    return this.onDrain(lease);
  }
}

function keeper(pod: string, worker: PartitionWorker = new Worker(), pool: Pool = db): LeaseKeeper {
  const made = new LeaseKeeper({ pod, db: pool, worker, log, times });
  keepers.push(made);
  made.start();
  return made;
}

const held = (of: LeaseKeeper): number => of.leases.length;

describe("partition leases", () => {
  it("gives one pod every partition and shares them when another comes up", async () => {
    const first = keeper("a");
    await eventually(() => held(first) === 256);
    const second = keeper("b");
    await eventually(() => held(first) === 128 && held(second) === 128);
    const partitions = [...first.leases, ...second.leases].map(({ partition }) => partition);
    expect(new Set(partitions).size).toBe(256);
  });

  it("raises the epoch at each take-over, and at no renewal", async () => {
    const first = keeper("a");
    await eventually(() => held(first) === 256);
    const before = first.leases.find(({ partition }) => partition === 0)!.epoch;
    await eventually(
      async () => (await db.query("select 1 from pod where id = 'a' and expires_at > now() + interval '1 second'")).rowCount === 1,
    );
    expect(first.leases.find(({ partition }) => partition === 0)!.epoch).toBe(before);
    await first.stop();
    const second = keeper("b");
    await eventually(() => held(second) === 256);
    expect(second.leases.find(({ partition }) => partition === 0)!.epoch).toBe(before + 1n);
  });

  it("hands everything over at shutdown at once, after the work in flight ended", async () => {
    const order: string[] = [];
    const worker = new Worker(async (lease) => {
      if (lease.partition !== 3) return;
      await eventually(() => order.includes("asked"));
      expect(lease.signal.aborted).toBe(false);
      order.push("drained");
    });
    const first = keeper("a", worker);
    await eventually(() => held(first) === 256);
    const second = keeper("b", new Worker());
    await eventually(() => held(second) === 128);
    order.push("asked");
    const stoppedAt = performance.now();
    await first.stop();
    await eventually(() => held(second) === 256);
    expect(performance.now() - stoppedAt).toBeLessThan(times.ttlMs);
    expect(order).toEqual(["asked", "drained"]);
    expect(worker.started.every(({ signal }) => signal.aborted)).toBe(true);
  });

  it("does not wait for work that will not end", async () => {
    const stuck = keeper("a", new Worker(() => new Promise(() => undefined)));
    await eventually(() => held(stuck) === 256);
    const startedAt = performance.now();
    await stuck.stop();
    expect(performance.now() - startedAt).toBeLessThan(times.drainMs + 500);
    expect(held(stuck)).toBe(0);
  });

  it("stops work by its own clock before the lease lapses, while the database swallows every packet", async () => {
    const proxy = await FaultProxy.start(database.url);
    const cut = createPool({
      url: proxy.url(database.url),
      applicationName: "cut",
      max: 2,
      acquireTimeoutMs: 500,
      statementTimeoutMs: 500,
    });
    pools.push(cut);
    try {
      const lost = keeper("a", new Worker(), cut);
      await eventually(() => held(lost) === 256);
      const lease = lost.leases[0]!;
      let abortedAt = 0;
      lease.signal.addEventListener("abort", () => (abortedAt = Date.now()));
      proxy.drop();
      const heir = keeper("b");
      await eventually(() => lease.signal.aborted, { timeoutMs: times.ttlMs + 500 });
      const { rows } = await db.query<{ at: Date }>("select expires_at as at from partition_lease where partition = $1", [
        lease.partition,
      ]);
      await eventually(() => held(heir) === 256, { timeoutMs: 3 * times.ttlMs });
      expect(abortedAt).toBeLessThan(rows[0]!.at.getTime());
    } finally {
      proxy.stop();
    }
  });

  it("ends the work on a lease that another pod took", async () => {
    const first = keeper("a");
    await eventually(() => held(first) === 256);
    const lease = first.leases.find(({ partition }) => partition === 12)!;
    await db.query("update partition_lease set pod = 'thief', epoch = epoch + 1 where partition = 12");
    await eventually(() => lease.signal.aborted);
  });
});
