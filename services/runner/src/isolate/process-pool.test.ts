import { afterEach, expect, test } from "vitest";
import type { Bundle } from "./bundle.js";
import type { Ending } from "./ending.js";
import { ProcessPool, type PooledIsolate, type PoolLimits } from "./process-pool.js";

const limits: PoolLimits = {
  processes: 2,
  memoryBytes: 2 ** 40,
  bundleStoreBytes: 1_000,
  starts: 2,
  idleMs: 1_000,
  invocationsPerProcess: 2,
  waiting: 4,
  waitMs: 200,
};
const ref = (digest: string, owner = "prj_a") => ({ owner, digest });
const bundle = (digest: string, owner?: string, bytes = 10): Bundle => ({
  ...ref(digest, owner),
  modules: [{ name: "m.js", kind: "esModule", data: Buffer.alloc(bytes) }],
  entryModules: ["m.js"],
});

class FakeIsolate implements PooledIsolate {
  inFlight = 0;
  isAlive = true;
  residentBytes = 0;
  readonly #ended = Promise.withResolvers<Ending>();
  readonly ended = this.#ended.promise;
  constructor(readonly digest: string) {}
  end(): Promise<void> {
    this.isAlive = false;
    this.#ended.resolve({ kind: "retired" });
    return this.ended.then(() => undefined);
  }
}

let pool: ProcessPool<FakeIsolate>;
let now = 0;
let starts: string[] = [];
let startError: Error | undefined;
let startGate: Promise<void> | undefined;
function newPool(overrides: Partial<PoolLimits> = {}, tenancy: "project" | "shared" = "shared"): void {
  now = 0;
  starts = [];
  startError = startGate = undefined;
  const start = async ({ digest }: Bundle) => {
    starts.push(digest);
    await startGate;
    if (startError !== undefined) throw startError;
    return new FakeIsolate(digest);
  };
  pool = new ProcessPool({ limits: { ...limits, ...overrides }, start, tenancy, nowMs: () => now });
  for (const digest of ["1", "2", "3"]) pool.keep(bundle(digest));
}
const acquire = (digest: string, quarantine = false) => pool.acquire(ref(digest), { quarantine });
afterEach(() => pool.end());

test("concurrent wishes for one digest start one process", async () => {
  newPool();
  const leases = await Promise.all([acquire("1"), acquire("1")]);
  expect(starts).toEqual(["1"]);
  expect(leases[0].isolate).toBe(leases[1].isolate);
});

test("a bundle whose modules are not here says so, and keeping it is enough", async () => {
  newPool();
  expect(pool.knows(ref("9"))).toBe(false);
  await expect(acquire("9")).rejects.toMatchObject({ code: "NOT_FOUND", data: { missing: "bundle" } });
  pool.keep(bundle("9"));
  expect(pool.knows(ref("9"))).toBe(true);
  expect((await acquire("9")).isolate.digest).toBe("9");
});

test("modules leave by recency once they are over the budget", () => {
  newPool({ bundleStoreBytes: 30 });
  pool.knows(ref("1"));
  pool.keep(bundle("4"));
  expect(["1", "2", "3", "4"].filter((digest) => pool.knows(ref(digest)))).toEqual(["1", "3", "4"]);
  pool.keep(bundle("5", "prj_a", 31));
  expect(pool.knows(ref("5"))).toBe(true);
});

test("a failed start is told to all who waited for it, and the next wish starts again", async () => {
  newPool();
  startError = new Error("does not load");
  const both = await Promise.allSettled([acquire("1"), acquire("1")]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(starts).toEqual(["1"]);
  startError = undefined;
  await acquire("1");
  expect(starts).toEqual(["1", "1"]);
});

test("the least recently used idle process makes room; a busy one never does", async () => {
  newPool();
  (await acquire("1")).release();
  now = 1;
  const second = await acquire("2");
  now = 2;
  (await acquire("3")).release();
  expect(pool.size).toBe(2);
  (await acquire("3")).release();
  (await acquire("1")).release();
  expect(starts).toEqual(["1", "2", "3", "1"]);
  expect(second.isolate.isAlive).toBe(true);
});

test("when all are busy a wish waits for a release, and is OVERLOADED in the end", async () => {
  newPool();
  const [first] = [await acquire("1"), await acquire("2")];
  const waiting = acquire("3");
  first.release();
  first.release();
  expect((await waiting).isolate.digest).toBe("3");
  await expect(acquire("1")).rejects.toMatchObject({ code: "OVERLOADED" });
});

test("a process runs no more invocations than its limit", async () => {
  newPool();
  const [one] = [await acquire("1"), await acquire("1")];
  let isIn = false;
  const third = acquire("1").then((lease) => ((isIn = true), lease));
  await new Promise((resolve) => setTimeout(resolve));
  expect(isIn).toBe(false);
  one.release();
  await third;
});

test("a process that died is replaced at the next wish", async () => {
  newPool();
  const lease = await acquire("1");
  await lease.isolate.end();
  lease.release();
  expect((await acquire("1")).isolate.isAlive).toBe(true);
  expect(starts).toEqual(["1", "1"]);
});

test("quarantine is a fresh process for one, which ends with its release and counts as a process", async () => {
  newPool();
  const shared = await acquire("1");
  const alone = await acquire("1", true);
  expect(alone.isolate).not.toBe(shared.isolate);
  expect(pool.size).toBe(2);
  const waiting = acquire("2");
  alone.release();
  expect(alone.isolate.isAlive).toBe(false);
  expect((await waiting).isolate.digest).toBe("2");
});

test("no more processes start at once than may", async () => {
  newPool({ starts: 1 });
  const gate = Promise.withResolvers<void>();
  startGate = gate.promise;
  const both = [acquire("1"), acquire("2")];
  await new Promise((resolve) => setTimeout(resolve));
  expect(starts).toEqual(["1"]);
  gate.resolve();
  await Promise.all(both);
  expect(starts).toEqual(["1", "2"]);
});

test("memory over the budget ends idle processes, and makes the next wish wait when none is idle", async () => {
  newPool({ processes: 10, memoryBytes: 200 * 2 ** 20 });
  const first = await acquire("1");
  first.isolate.residentBytes = 150 * 2 ** 20;
  await expect(acquire("2")).rejects.toMatchObject({ code: "OVERLOADED" });
  first.release();
  await acquire("2");
  expect(first.isolate.isAlive).toBe(false);
});

test.each([
  [999, true],
  [1_000, false],
])("a process unused for %i of 1,000 ms lives: %s", async (idle, lives) => {
  newPool();
  const lease = await acquire("1");
  lease.release();
  now = idle;
  pool.endIdle();
  await Promise.resolve();
  await Promise.resolve();
  expect(lease.isolate.isAlive).toBe(lives);
});

test("a pod of one project binds to the first it serves and refuses every other", async () => {
  newPool({}, "project");
  expect(pool.vacantMs).toBe(0);
  pool.keep(bundle("1", "prj_b"));
  const lease = await acquire("1");
  await expect(pool.acquire(ref("1", "prj_b"), { quarantine: false })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(() => pool.keep(bundle("1", "prj_b"))).toThrow(expect.objectContaining({ code: "UNAVAILABLE" }));
  lease.release();
  now = 5_000;
  pool.endIdle();
  await lease.isolate.ended;
  expect(pool.vacantMs).toBe(5_000);
});

test("an ended pool takes no more work and releases those who wait", async () => {
  newPool();
  await Promise.all([acquire("1"), acquire("2")]);
  const waiting = expect(acquire("3")).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await pool.end();
  await waiting;
  await expect(acquire("1")).rejects.toMatchObject({ code: "UNAVAILABLE" });
});
