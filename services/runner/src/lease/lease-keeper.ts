/**
 * Holds this pod's fair share of the partitions. A partition is `held` from its take-over until its lease is lost (its renewal did
 * not come back in time, or the row says so), surplus (another pod came up) or handed over (shutdown).
 *
 * Two clocks keep apart: the database's decides who may take a lease, this process's own monotonic clock decides when to stop, 2 s
 * before the database could give the lease away, counted from when the last successful renewal was *sent*.
 */
import type { Log } from "@iterate-platform/service/log";
import type { Queryable } from "@iterate-platform/service/postgres";
import type { Lease, PartitionWorker } from "./lease.js";
import { alivePods, releaseLeases, removePod, renewLeases, takeLeases, type HeldRow } from "./lease.sql.js";
import { fairShare } from "./shares.js";

export interface LeaseTimes {
  readonly ttlMs: number;
  readonly renewMs: number;
  /** How often free partitions are looked for. */
  readonly balanceMs: number;
  /** Work stops this long before the lease lapses. */
  readonly marginMs: number;
  /** Longest wait for work in flight when a lease is given up. */
  readonly drainMs: number;
}

export const leaseTimes: LeaseTimes = { ttlMs: 10_000, renewMs: 3_000, balanceMs: 1_000, marginMs: 2_000, drainMs: 5_000 };

export interface LeaseKeeperParts {
  readonly pod: string;
  readonly db: Queryable;
  readonly worker: PartitionWorker;
  readonly log: Log;
  readonly times?: LeaseTimes;
  /** Called after every renewal that was answered. */
  readonly onRenewed?: () => void;
  readonly monotonicMs?: () => number;
}

interface Held {
  readonly lease: Lease;
  readonly stop: AbortController;
  isDraining: boolean;
}

export class LeaseKeeper {
  readonly #pod: string;
  readonly #db: Queryable;
  readonly #worker: PartitionWorker;
  readonly #log: Log;
  readonly #times: LeaseTimes;
  readonly #onRenewed: () => void;
  readonly #now: () => number;
  readonly #held = new Map<number, Held>();
  #validUntilMs = 0;
  #deadman: NodeJS.Timeout | undefined;
  #timers: NodeJS.Timeout[] = [];
  #renewing: Promise<void> | undefined;
  #balancing: Promise<void> | undefined;
  #isStopping = false;

  constructor(parts: LeaseKeeperParts) {
    this.#pod = parts.pod;
    this.#db = parts.db;
    this.#worker = parts.worker;
    this.#log = parts.log;
    this.#times = parts.times ?? leaseTimes;
    this.#onRenewed = parts.onRenewed ?? (() => undefined);
    this.#now = parts.monotonicMs ?? (() => performance.now());
  }

  /** Leases held now. */
  get leases(): readonly Lease[] {
    return [...this.#held.values()].map(({ lease }) => lease);
  }

  /** Begins to renew and to share. Returns at once; a database that is away is tried again at every tick. */
  start(): void {
    const tick = (): void => void this.#renew().then(() => this.#balance());
    this.#timers = [setInterval(tick, this.#times.renewMs), setInterval(() => void this.#balance(), this.#times.balanceMs)];
    tick();
  }

  /** Hands every partition over: drains, then frees the rows so that other pods take them at their next tick. Bounded. */
  async stop(): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all([this.#renewing, this.#balancing]);
    // The leases go on being renewed while their work ends.
    const renewing = setInterval(() => void this.#renew(), this.#times.renewMs);
    try {
      await this.#giveUp([...this.#held.values()]);
    } finally {
      clearInterval(renewing);
      clearTimeout(this.#deadman);
      await this.#db
        .query(removePod(this.#pod))
        .catch((error: unknown) => this.#log.warn("the pod's row outlives it until it lapses", { error }));
    }
  }

  #renew(): Promise<void> {
    return (this.#renewing ??= this.#renewOnce().finally(() => (this.#renewing = undefined)));
  }

  async #renewOnce(): Promise<void> {
    const sentAtMs = this.#now();
    const before = [...this.#held.values()];
    try {
      const { rows } = await this.#db.query<HeldRow>(renewLeases(this.#pod, this.#times.ttlMs));
      const renewed = new Map(rows.map((row) => [row.partition, BigInt(row.epoch)]));
      for (const held of before) {
        if (renewed.get(held.lease.partition) !== held.lease.epoch) this.#lose(held, "another pod may hold it");
      }
      this.#extend(sentAtMs);
      this.#onRenewed();
    } catch (error) {
      this.#log.warn("leases could not be renewed", { error, held: this.#held.size });
    }
  }

  #balance(): Promise<void> {
    if (this.#isStopping) return Promise.resolve();
    return (this.#balancing ??= this.#balanceOnce()
      .catch((error: unknown) => this.#log.warn("partitions could not be shared out", { error }))
      .finally(() => (this.#balancing = undefined)));
  }

  async #balanceOnce(): Promise<void> {
    const { rows } = await this.#db.query<{ id: string }>(alivePods());
    const share = fairShare(
      rows.map(({ id }) => id),
      this.#pod,
    );
    const settled = [...this.#held.values()].filter(({ isDraining }) => !isDraining);
    const missing = share - this.#held.size;
    if (missing > 0) await this.#take(missing);
    else if (settled.length > share && rows.length > 0) await this.#giveUp(settled.slice(share));
  }

  async #take(count: number): Promise<void> {
    const sentAtMs = this.#now();
    const { rows } = await this.#db.query<HeldRow>(takeLeases(this.#pod, this.#times.ttlMs, count));
    if (rows.length === 0) return;
    // A lease is valid from when it was asked for; all share the earliest end, which the next renewal moves.
    if (this.#held.size === 0) this.#extend(sentAtMs);
    for (const row of rows) {
      const former = this.#held.get(row.partition);
      if (former !== undefined) this.#lose(former, "it lapsed");
      const stop = new AbortController();
      const lease: Lease = { partition: row.partition, epoch: BigInt(row.epoch), signal: stop.signal };
      this.#held.set(row.partition, { lease, stop, isDraining: false });
    }
    this.#log.info("took over partitions", { count: rows.length, held: this.#held.size });
    for (const row of rows) {
      const held = this.#held.get(row.partition);
      if (held !== undefined) this.#worker.start(held.lease);
    }
  }

  /** Drains the given leases, then frees them together. */
  async #giveUp(leases: readonly Held[]): Promise<void> {
    for (const held of leases) held.isDraining = true;
    const bound = AbortSignal.timeout(this.#times.drainMs);
    const bounded = new Promise<void>((resolve) => bound.addEventListener("abort", () => resolve(), { once: true }));
    await Promise.all(leases.map(async (held) => Promise.race([this.#worker.drain(held.lease), bounded])));
    const kept = leases.filter((held) => this.#held.get(held.lease.partition) === held);
    for (const held of kept) this.#end(held);
    if (kept.length === 0) return;
    await this.#db
      .query(
        releaseLeases(
          this.#pod,
          kept.map(({ lease }) => lease.partition),
          kept.map(({ lease }) => lease.epoch),
        ),
      )
      .catch((error: unknown) => this.#log.warn("leases were not freed and must lapse", { error, count: kept.length }));
    this.#log.info("handed partitions over", { count: kept.length, held: this.#held.size });
  }

  #lose(held: Held, reason: string): void {
    if (this.#held.get(held.lease.partition) !== held) return;
    this.#log.warn("lost a partition", { partition: held.lease.partition, epoch: String(held.lease.epoch), reason });
    this.#end(held);
  }

  #end(held: Held): void {
    this.#held.delete(held.lease.partition);
    held.stop.abort(new Error(`partition ${held.lease.partition} is no longer held under epoch ${held.lease.epoch}`));
  }

  #extend(sentAtMs: number): void {
    this.#validUntilMs = sentAtMs + this.#times.ttlMs - this.#times.marginMs;
    clearTimeout(this.#deadman);
    this.#deadman = setTimeout(() => this.#lapse(), Math.max(0, this.#validUntilMs - this.#now()));
  }

  #lapse(): void {
    if (this.#now() < this.#validUntilMs) return this.#extend(this.#validUntilMs - this.#times.ttlMs + this.#times.marginMs);
    for (const held of [...this.#held.values()]) this.#lose(held, "no renewal was answered in time");
  }
}
