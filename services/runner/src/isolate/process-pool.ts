/**
 * The processes of this pod: one per (project, digest), kept warm by recency within a count and a memory budget. Concurrent wishes for
 * one digest start one process. When nothing idle can make room a wish waits, bounded, fair between projects. A quarantine process is
 * started for one invocation, never shared, and ends with it.
 */
import { codedError, type CodedError } from "iterate/lib";
import { bundleKey, type Bundle, type BundleRef } from "./bundle.js";
import { BundleStore } from "./bundle-store.js";
import { FairQueue } from "./fair-queue.js";
import type { Ending } from "./ending.js";

/** What the pool needs of an isolate. */
export interface PooledIsolate {
  readonly inFlight: number;
  readonly isAlive: boolean;
  readonly residentBytes: number;
  readonly ended: Promise<Ending>;
  end(): Promise<void>;
}

export interface PoolLimits {
  /** Most processes, quarantine included. */
  readonly processes: number;
  /** Resident bytes above which idle processes end and new ones wait. */
  readonly memoryBytes: number;
  /** Module bytes kept for starting again. */
  readonly bundleStoreBytes: number;
  /** Processes that start at once; more would push each other past the start deadline. */
  readonly starts: number;
  /** An unused process ends after this long. */
  readonly idleMs: number;
  readonly invocationsPerProcess: number;
  readonly waiting: number;
  readonly waitMs: number;
}

export const poolLimits: Omit<PoolLimits, "invocationsPerProcess"> = {
  processes: 32,
  memoryBytes: 4 * 2 ** 30,
  bundleStoreBytes: 256 * 2 ** 20,
  starts: 2,
  idleMs: 120_000,
  waiting: 512,
  waitMs: 10_000,
};

export interface PoolOptions<I extends PooledIsolate> {
  readonly limits: PoolLimits;
  /** Starts a process; rejects with ISOLATE_START when the bundle does not load. */
  readonly start: (bundle: Bundle) => Promise<I>;
  /** `project`: the pod binds to the first project it serves and takes no other. `shared` is for one machine. */
  readonly tenancy: "project" | "shared";
  readonly nowMs: () => number;
}

/** The right to run one invocation in a process. */
export interface Lease<I extends PooledIsolate> {
  readonly isolate: I;
  /** Idempotent. A quarantine process ends. */
  release(): void;
}

interface Slot<I> {
  readonly started: Promise<I>;
  isolate: I | undefined;
  leases: number;
  usedAtMs: number;
}

/** What an idle process takes, before it can be measured. */
const startingBytes = 64 * 2 ** 20;

export class ProcessPool<I extends PooledIsolate> {
  readonly #options: PoolOptions<I>;
  readonly #bundles: BundleStore;
  readonly #slots = new Map<string, Slot<I>>();
  readonly #quarantined = new Set<Promise<I>>();
  readonly #room: FairQueue;
  readonly #startTurns: FairQueue;
  readonly #sweep: NodeJS.Timeout;
  #starting = 0;
  #tenant: string | undefined;
  #usedAtMs: number;
  #hasEnded = false;

  constructor(options: PoolOptions<I>) {
    this.#options = options;
    this.#bundles = new BundleStore(options.limits.bundleStoreBytes);
    this.#room = new FairQueue(options.limits);
    this.#startTurns = new FairQueue(options.limits);
    this.#usedAtMs = options.nowMs();
    this.#sweep = setInterval(() => this.endIdle(), Math.max(100, options.limits.idleMs / 4)).unref();
  }

  /** Processes alive or starting. */
  get size(): number {
    return this.#slots.size + this.#quarantined.size;
  }

  /** Milliseconds since the last use, once the pod has served someone and runs nothing; 0 before. */
  get vacantMs(): number {
    return this.#tenant === undefined || this.size > 0 ? 0 : this.#options.nowMs() - this.#usedAtMs;
  }

  /** True when `acquire` needs no modules. @throws UNAVAILABLE when the pod belongs to another project. */
  knows(ref: BundleRef): boolean {
    this.#assertTenant(ref.owner);
    return this.#bundles.get(ref) !== undefined;
  }

  keep(bundle: Bundle): void {
    this.#assertTenant(bundle.owner);
    this.#bundles.put(bundle);
  }

  /**
   * @throws NOT_FOUND when the modules are not here; ISOLATE_START when they do not load; OVERLOADED when no room is found in time;
   * UNAVAILABLE for another project's pod; the signal's reason.
   */
  async acquire(ref: BundleRef, { quarantine, signal }: { quarantine: boolean; signal?: AbortSignal }): Promise<Lease<I>> {
    this.#assertTenant(ref.owner);
    const bundle = this.#bundles.get(ref);
    if (bundle === undefined)
      throw codedError("NOT_FOUND", `The modules of bundle ${ref.digest} are not here; send them with Ensure.`, {
        missing: "bundle",
      });
    this.#tenant ??= ref.owner;
    this.#usedAtMs = this.#options.nowMs();
    return quarantine ? this.#acquireAlone(bundle, signal) : this.#acquireShared(bundle, signal);
  }

  /** Ends processes that nobody has used for `idleMs`. */
  endIdle(): void {
    const before = this.#options.nowMs() - this.#options.limits.idleMs;
    for (const [key, slot] of this.#slots) if (slot.leases === 0 && slot.usedAtMs <= before) this.#end(key, slot);
  }

  /** Ends every process and takes no more work. Resolves once all are reaped. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    clearInterval(this.#sweep);
    while (this.#room.wake() || this.#startTurns.wake());
    const all = [...[...this.#slots.values()].map((slot) => slot.started), ...this.#quarantined];
    await Promise.allSettled(all.map(async (started) => (await started).end()));
  }

  async #acquireShared(bundle: Bundle, signal: AbortSignal | undefined): Promise<Lease<I>> {
    const key = bundleKey(bundle);
    for (;;) {
      this.#assertOpen();
      const slot = this.#slots.get(key) ?? (this.#makeRoom() ? this.#newSlot(key, bundle) : undefined);
      if (slot === undefined || slot.leases >= this.#options.limits.invocationsPerProcess) {
        await this.#room.wait(bundle.owner, signal);
        continue;
      }
      slot.leases++;
      try {
        const isolate = await slot.started;
        if (isolate.isAlive) return { isolate, release: once(() => this.#release(slot)) };
        this.#release(slot);
        // Its end is being reaped; the next turn starts a new one.
        if (this.#slots.get(key) === slot) this.#slots.delete(key);
      } catch (thrown) {
        this.#release(slot);
        throw thrown;
      }
    }
  }

  async #acquireAlone(bundle: Bundle, signal: AbortSignal | undefined): Promise<Lease<I>> {
    while (!this.#makeRoom()) {
      await this.#room.wait(bundle.owner, signal);
      this.#assertOpen();
    }
    const started = this.#start(bundle);
    this.#quarantined.add(started);
    const forget = () => {
      this.#quarantined.delete(started);
      this.#room.wake();
    };
    try {
      const isolate = await started;
      return { isolate, release: once(() => void isolate.end().finally(forget)) };
    } catch (thrown) {
      forget();
      throw thrown;
    }
  }

  #newSlot(key: string, bundle: Bundle): Slot<I> {
    const slot: Slot<I> = { started: this.#start(bundle), isolate: undefined, leases: 0, usedAtMs: this.#options.nowMs() };
    this.#slots.set(key, slot);
    const forget = () => {
      if (this.#slots.get(key) === slot) this.#slots.delete(key);
      this.#room.wake();
    };
    slot.started.then((isolate) => {
      slot.isolate = isolate;
      void isolate.ended.then(forget);
    }, forget);
    return slot;
  }

  async #start(bundle: Bundle): Promise<I> {
    while (this.#starting >= this.#options.limits.starts) await this.#startTurns.wait(bundle.owner);
    this.#assertOpen();
    this.#starting++;
    try {
      return await this.#options.start(bundle);
    } finally {
      this.#starting--;
      this.#startTurns.wake();
    }
  }

  /** True when one more process fits, after ending the least recently used idle ones if need be. */
  #makeRoom(): boolean {
    for (;;) {
      if (
        this.size === 0 ||
        (this.size < this.#options.limits.processes && this.#takenBytes() + startingBytes <= this.#options.limits.memoryBytes)
      )
        return true;
      const idle = [...this.#slots]
        .filter(([, slot]) => slot.leases === 0 && slot.isolate !== undefined)
        .sort(([, a], [, b]) => a.usedAtMs - b.usedAtMs)[0];
      if (idle === undefined) return false;
      this.#end(...idle);
    }
  }

  #takenBytes(): number {
    const warm = [...this.#slots.values()].reduce(
      (sum, { isolate }) => sum + Math.max(startingBytes, isolate?.residentBytes ?? 0),
      0,
    );
    return warm + this.#quarantined.size * startingBytes;
  }

  #release(slot: Slot<I>): void {
    slot.leases--;
    slot.usedAtMs = this.#usedAtMs = this.#options.nowMs();
    this.#room.wake();
  }

  #end(key: string, slot: Slot<I>): void {
    this.#slots.delete(key);
    void slot.started.then(
      (isolate) => isolate.end(),
      () => undefined,
    );
  }

  #assertTenant(owner: string): void {
    if (this.#options.tenancy === "project" && this.#tenant !== undefined && this.#tenant !== owner) {
      throw codedError("UNAVAILABLE", "This isolate pod serves another project; place the bundle on another pod.", {
        tenant: "other",
      });
    }
  }

  #assertOpen(): void {
    if (this.#hasEnded) throw shuttingDown();
  }
}

function shuttingDown(): CodedError {
  return codedError("UNAVAILABLE", "The isolate pod is shutting down; place the bundle on another pod.");
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}
