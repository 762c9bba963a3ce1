/**
 * The write side of one shard: two lanes commit groups, a third commits large appends, each on a connection of its own. A context
 * belongs to one lane, and at most one of its commits is under way, so an append waits for nothing but its own context and its
 * lane's turn. Groups form by themselves from what queued while the lane's last commit was under way; there is no timer.
 */
import { CodedError, codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import type { Timers } from "../timers.js";
import { ContextQueue, FairQueue, PendingAppend, type AppendBooks, type ContextBatch } from "./append-queue.js";
import type { AppendReceipt, CommitObserver, ContextAddress, EphemeralObserver, PolicyGuard, StorableEvent } from "./contract.js";
import type { ShardState } from "./batch-truth.js";
import { newCounters, type CommitCounters } from "./commit-counters.js";
import { GroupCommitter, type CommitterOptions } from "./group-commit.js";
import type { HeadCache } from "./head-cache.js";
import { queueLimits } from "./limits.js";
import type { LogLane, LogStore } from "./log-store.js";
import { OffsetBlocks } from "./offset-blocks.js";
import { TypeNumbers } from "./type-numbers.js";

/** Connections that commit groups: one loses at 1,024 appends in flight, four make the groups too small at 64. */
export const laneCount = 2;
/** Contexts loaded by one statement. */
const loadBatch = 512;

export interface LogWriterOptions {
  /** The writer keeps three of its lanes open. */
  readonly store: LogStore;
  readonly cache: HeadCache;
  readonly onCommit: CommitObserver;
  /** Told after a commit that changed when schedules are due. Must not throw or block. */
  readonly onDue?: (() => void) | undefined;
  readonly onEphemeral: EphemeralObserver;
  /** This process, in commit rows: below 2^53, made anew at each start. */
  readonly writer: number;
  readonly timers: Timers;
  /** Wall clock, milliseconds since 1970: the time of ephemeral events. */
  readonly clockMs: () => number;
  readonly failpoint: CommitterOptions["failpoint"];
  /** Hears of failures that are faults of the platform. */
  readonly onFault: (error: unknown) => void;
}

/** An append that turned out to be in the log. */
export interface StoredAppend {
  readonly receipts: readonly AppendReceipt[];
}

/** An append whose events may still be under examination, or which may still turn out to be stored. */
export interface AppendToWrite {
  readonly address: ContextAddress;
  /** `nameOf(address)`. */
  readonly name: string;
  /** Names the append among all that are under way; `null` for one that nobody can repeat. */
  readonly key: string | null;
  readonly appendId: string;
  readonly writer: Writer;
  readonly traceparent: string | null;
  /** What its commit must prove; `null` when nothing refuses it. */
  readonly guard: PolicyGuard | null;
  readonly events: readonly StorableEvent[] | Promise<readonly StorableEvent[] | StoredAppend>;
}

interface Lane {
  readonly queue: FairQueue;
  readonly connection: LogLane;
  readonly committer: GroupCommitter;
  isRunning: boolean;
}

export class LogWriter implements AppendBooks {
  readonly counters: CommitCounters = newCounters();
  /** Offsets that may be handed out without a commit. */
  readonly blocks: OffsetBlocks;
  readonly #options: LogWriterOptions;
  readonly #shard: ShardState = { generation: 0 };
  readonly #lanes: Lane[] = [];
  readonly #largeLane: Lane;
  readonly #contexts = new Map<string, ContextQueue>();
  readonly #underWay = new Map<string, Promise<readonly AppendReceipt[]>>();
  #toLoad: ContextQueue[] = [];
  #waitingAppends = 0;
  #waitingBytes = 0;
  #idle: (() => void)[] = [];

  constructor(options: LogWriterOptions) {
    this.#options = options;
    this.blocks = new OffsetBlocks(() => options.timers.nowMs());
    const types = new TypeNumbers();
    const lane = (): Lane => {
      const connection = options.store.openLane();
      const committer = new GroupCommitter(connection, {
        ...options,
        types,
        shard: this.#shard,
        counters: this.counters,
        blocks: this.blocks,
      });
      return { queue: new FairQueue(), connection, committer, isRunning: false };
    };
    for (let index = 0; index < laneCount; index += 1) this.#lanes.push(lane());
    this.#largeLane = lane();
  }

  /** Appends that wait or are under way. */
  get waiting(): number {
    return this.#waitingAppends;
  }

  /**
   * Commits one append. Appends given one after the other for one context land in that order.
   *
   * @throws CodedError OVERLOADED when too much waits; else as `Appender.append`.
   */
  write(request: AppendToWrite): Promise<readonly AppendReceipt[]> {
    if (this.#waitingAppends >= queueLimits.waitingAppends || this.#waitingBytes >= queueLimits.waitingBytes) {
      throw new CodedError("OVERLOADED", `${this.#waitingAppends} appends of ${this.#waitingBytes} bytes wait already`, {
        retryAfterMs: 250,
      });
    }
    const answer = new Promise<readonly AppendReceipt[]>((resolve, reject) => {
      const append = new PendingAppend(request, this.#options.timers.nowMs(), this, resolve, reject);
      this.#waitingAppends += 1;
      const context = this.#contextOf(request);
      context.push(append);
      const { events } = request;
      if (!(events instanceof Promise)) return this.#complete(context, append, events);
      events.then(
        (events) => {
          if ("receipts" in events) this.#leave(context, append, () => append.resolve(events.receipts));
          else {
            // What it took to examine it is no time in which the database was away.
            append.waitsSinceMs = this.#options.timers.nowMs();
            this.#complete(context, append, events);
          }
        },
        (error: unknown) => this.#leave(context, append, () => append.reject(error)),
      );
    });
    if (request.key !== null) this.#underWay.set(request.key, answer);
    return answer;
  }

  /** The answer of an append that is under way here under this key. */
  underWay(key: string): Promise<readonly AppendReceipt[]> | undefined {
    return this.#underWay.get(key);
  }

  /** Settles when nothing waits and nothing is under way. */
  async settled(): Promise<void> {
    if (this.#waitingAppends > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Gives the connections back; call it after `settled`. */
  close(): void {
    for (const { connection } of [...this.#lanes, this.#largeLane]) connection.close();
  }

  #complete(context: ContextQueue, append: PendingAppend, events: readonly StorableEvent[]): void {
    if (append.isSettled) return;
    append.complete(events);
    this.#waitingBytes += append.bytes;
    this.#offer(context);
  }

  /** Takes an append out that will not be written; what waited behind it goes on. */
  #leave(context: ContextQueue, append: PendingAppend, answer: () => void): void {
    context.remove(append);
    answer();
    this.#offer(context);
  }

  appendSettled(append: PendingAppend): void {
    this.#waitingAppends -= 1;
    if (append.key !== null) this.#underWay.delete(append.key);
    if (append.completed !== null) this.#waitingBytes -= append.bytes;
    if (this.#waitingAppends === 0) for (const settle of this.#idle.splice(0)) settle();
  }

  #contextOf({ address, name }: AppendToWrite): ContextQueue {
    const held = this.#contexts.get(name);
    if (held !== undefined) return held;
    const context = new ContextQueue(name, address);
    this.#contexts.set(name, context);
    const head = this.#options.cache.peekByName(name);
    if (head !== undefined && this.#shard.generation > 0) {
      context.reloaded(head, this.#shard.generation);
      context.state = "resting";
    } else {
      if (this.#toLoad.length === 0) this.#options.timers.soon(() => void this.#load());
      this.#toLoad.push(context);
    }
    return context;
  }

  /** Lets a context take its turn when it has a complete append and nothing of it is under way; forgets it when nothing waits. */
  #offer(context: ContextQueue): void {
    if (context.state !== "resting") return;
    if (context.next !== undefined) {
      const lane = this.#lanes[context.head!.partition % laneCount]!;
      lane.queue.add(context);
      this.#wake(lane);
    } else if (context.length === 0) this.#contexts.delete(context.name);
  }

  #wake(lane: Lane): void {
    if (lane.isRunning) return;
    lane.isRunning = true;
    this.#options.timers.soon(() => void this.#run(lane));
  }

  async #run(lane: Lane): Promise<void> {
    for (;;) {
      const group = lane.queue.takeGroup();
      for (const context of lane.queue.takeLarge()) this.#offerLarge(context);
      if (group.length === 0) break;
      await this.#commit(lane, group);
    }
    lane.isRunning = false;
  }

  async #commit(lane: Lane, group: readonly ContextBatch[]): Promise<void> {
    try {
      await lane.committer.run(group);
    } catch (error) {
      // It does not throw; if it did, the lane must go on and nobody must wait for ever.
      this.#options.onFault(error);
      for (const { appends } of group)
        for (const append of appends) append.reject(codedError("INTERNAL", "the append failed; repeat it with the same append_id"));
    }
    for (const { context } of group) {
      if (context.isClosed) this.#loadAgain(context);
      else {
        context.state = "resting";
        this.#offer(context);
      }
    }
  }

  /** The context was replaced: what waits behind it is for whichever has its name now. */
  #loadAgain(context: ContextQueue): void {
    if (context.length === 0) {
      this.#contexts.delete(context.name);
      return;
    }
    context.state = "loading";
    if (this.#toLoad.length === 0) this.#options.timers.soon(() => void this.#load());
    this.#toLoad.push(context);
  }

  /** Large appends go one at a time, each with nothing beside it. */
  readonly #largeWaiting: ContextQueue[] = [];

  #offerLarge(context: ContextQueue): void {
    this.#largeWaiting.push(context);
    if (this.#largeLane.isRunning) return;
    this.#largeLane.isRunning = true;
    this.#options.timers.soon(() => void this.#runLarge());
  }

  async #runLarge(): Promise<void> {
    for (let context = this.#largeWaiting.shift(); context !== undefined; context = this.#largeWaiting.shift()) {
      await this.#commit(this.#largeLane, [{ context, appends: [context.shift()] }]);
    }
    this.#largeLane.isRunning = false;
  }

  /** Reads the heads of contexts that memory does not hold, beside the lanes: one slow load holds nobody else up. */
  async #load(): Promise<void> {
    const all = this.#toLoad;
    this.#toLoad = [];
    for (let from = 0; from < all.length; from += loadBatch) await this.#loadSome(all.slice(from, from + loadBatch));
  }

  async #loadSome(contexts: readonly ContextQueue[]): Promise<void> {
    const { cache, store } = this.#options;
    try {
      if (this.#shard.generation === 0) this.#shard.generation = await store.generation();
      const { generation } = this.#shard;
      const heads = await cache.loadForAppend(
        contexts.map(({ address }) => address),
        store,
      );
      for (const [index, context] of contexts.entries()) {
        context.reloaded(heads[index]!, generation);
        context.state = "resting";
        this.#offer(context);
      }
    } catch (error) {
      for (const context of contexts) {
        this.#contexts.delete(context.name);
        for (const append of context.drain()) append.reject(error);
      }
    }
  }
}
