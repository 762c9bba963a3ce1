/** One database of the log with everything that works on it: its connections, what is remembered of it, its write and its read side. */
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { partitionOf } from "@iterate-platform/service/ids";
import type { CoreState } from "../core/contract.js";
import type { Vocabulary } from "../core/vocabulary.js";
import { realTimers } from "../timers.js";
import type { LogShard } from "./appender.js";
import { HeadConfirmer, type Heads } from "./confirm.js";
import type { CommitObserver, ContextAddress, ContextHead, EphemeralObserver } from "./contract.js";
import { EventTypes } from "./event-types.js";
import { HeadCache } from "./head-cache.js";
import { LogWriter, type LogWriterOptions } from "./log-writer.js";
import type { LogStore } from "./log-store.js";
import type { Page, PageBounds, Reads } from "./page.js";
import { LogReader } from "./read.js";
import type { ShardMap } from "./shard-map.js";
import type { ArchiveStore } from "../archive/contract.js";
import type { BirthStore, ChildStore } from "../births/contract.js";
import { Newborn } from "../births/newborn.js";
import type { KvStore } from "../kv/contract.js";
import type { Past } from "../past/contract.js";
import { PastCores } from "../past/past-cores.js";
import type { RetentionStore } from "../retention/contract.js";
import { PostgresChildStore } from "./postgres/postgres-child-store.js";
import { PostgresBirthStore } from "./postgres/postgres-birth-store.js";
import { PostgresArchiveStore } from "./postgres/postgres-archive-store.js";
import { GenerationStore } from "./postgres/generation-store.js";
import { PostgresKvStore } from "./postgres/postgres-kv-store.js";
import { PostgresLogStore } from "./postgres/postgres-log-store.js";
import { PostgresRetentionStore } from "./postgres/postgres-retention-store.js";
import { PostgresSnapshotStore } from "./postgres/postgres-snapshot-store.js";
import { PooledSession } from "./postgres/sql-session.js";
import { DueBell } from "../schedules/due-bell.js";
import { TypeBlocks } from "./type-blocks.js";

export interface ShardOptions {
  readonly url: string;
  readonly maxConnections: number;
  readonly pooler: "none" | "transaction";
  /** Contexts held in memory. */
  readonly maxContexts: number;
  readonly onCommit: CommitObserver;
  readonly onEphemeral: EphemeralObserver;
  readonly onFault: LogWriterOptions["onFault"];
  readonly failpoint: LogWriterOptions["failpoint"];
  /** This process, in commit rows. */
  readonly writer: number;
  /** The types it knows; those of the release when absent. */
  readonly vocabulary?: Vocabulary;
}

export class Shard implements LogShard {
  readonly pool: Pool;
  readonly store: LogStore;
  readonly retention: RetentionStore;
  readonly archives: ArchiveStore;
  readonly kv: KvStore;
  readonly births: BirthStore;
  readonly children: ChildStore;
  /** Those born by commits of this process. */
  readonly newborn = new Newborn();
  /** What contexts were. */
  readonly past: PastCores;
  readonly cache: HeadCache;
  readonly writer: LogWriter;
  readonly heads: HeadConfirmer;
  /** Rung by commits that change when schedules are due. */
  readonly dueBell = new DueBell();
  readonly reader: LogReader;
  readonly #generations: GenerationStore;

  constructor({
    url,
    maxConnections,
    pooler,
    maxContexts,
    onCommit,
    onEphemeral,
    onFault,
    failpoint,
    writer,
    vocabulary,
  }: ShardOptions) {
    this.pool = createPool({ url, applicationName: "context", max: maxConnections, planCacheMode: "force_generic_plan", pooler });
    this.store = new PostgresLogStore(this.pool);
    const session = new PooledSession(this.pool);
    this.retention = new PostgresRetentionStore(session);
    this.children = new PostgresChildStore(session);
    this.births = new PostgresBirthStore(session);
    this.past = new PastCores({ store: this.store, snapshots: new PostgresSnapshotStore(session), vocabulary });
    this.archives = new PostgresArchiveStore(session, this.store);
    this.kv = new PostgresKvStore(this.pool);
    this.#generations = new GenerationStore(session);
    this.cache = new HeadCache({ maxContexts, store: this.store, ...(vocabulary === undefined ? {} : { vocabulary }) });
    this.writer = new LogWriter({
      store: this.store,
      cache: this.cache,
      onCommit: (batch) => {
        this.newborn.observe(batch);
        onCommit(batch);
      },
      onEphemeral,
      onDue: () => this.dueBell.ring(),
      writer,
      timers: realTimers,
      clockMs: Date.now,
      failpoint,
      onFault,
    });
    this.heads = new HeadConfirmer(this.cache);
    this.reader = new LogReader({
      store: this.store,
      heads: this.heads,
      types: new EventTypes(this.store),
      blocks: new TypeBlocks(this.store),
    });
  }

  /** Whether the newest commit known of a context is one of this process, which may hand out the offsets behind it. */
  holdsNewest(address: ContextAddress): boolean {
    const head = this.cache.peek(address);
    return head !== undefined && this.writer.blocks.isHeld(head);
  }

  /**
   * Says that the database was restored from a backup: every commit from now on is planned anew, in the generation answered, above any
   * offset that may have been lost. Once for each call.
   */
  async raiseGeneration(): Promise<number> {
    const generation = await this.#generations.raise();
    this.cache.clear();
    return generation;
  }

  /** Resolves when the database answers. @throws CodedError UNAVAILABLE. */
  ping(): Promise<void> {
    return this.store.ping();
  }

  /** Ends appends under way with their answers, then the connections. */
  async close(): Promise<void> {
    await this.writer.settled();
    this.writer.close();
    await this.pool.end();
  }
}

/** Reads of any context, each on the shard that holds it. */
export class ShardedReads implements Reads, Heads, Past {
  readonly #shards: ShardMap<Shard>;

  constructor(shards: ShardMap<Shard>) {
    this.#shards = shards;
  }

  read(address: ContextAddress, after: number, types: readonly string[], bounds: PageBounds, signal?: AbortSignal): Promise<Page> {
    return this.#of(address).reader.read(address, after, types, bounds, signal);
  }

  confirm(address: ContextAddress): Promise<ContextHead | undefined> {
    return this.#of(address).heads.confirm(address);
  }

  coreAt({ partition, contextId }: ContextHead, offset: number, signal: AbortSignal): Promise<CoreState> {
    return this.#shards.of(partition).past.at(contextId, offset, signal);
  }

  holdsNewest(address: ContextAddress): boolean {
    return this.#of(address).holdsNewest(address);
  }

  /** Lets go what is held of a context; it is loaded again when it is asked for. */
  forget(address: ContextAddress): void {
    this.#of(address).heads.forget(address);
  }

  #of({ owner, path }: ContextAddress): Shard {
    return this.#shards.of(partitionOf(owner, path));
  }
}
