/** One process of the context service, of the classes that ship; only clock, randomness, database and broker are simulated. */
import { createLog } from "@iterate-platform/service/log";
import { codedError, isCodedError } from "iterate/lib";
import { Resolver } from "../../src/invoke/resolver.js";
import { JsonThread } from "../../src/json/worker-thread.js";
import { LogAppender } from "../../src/log/appender.js";
import { HeadConfirmer } from "../../src/log/confirm.js";
import { EventTypes } from "../../src/log/event-types.js";
import { HeadCache } from "../../src/log/head-cache.js";
import { LogWriter } from "../../src/log/log-writer.js";
import { MixedReads } from "../../src/log/mixed-read.js";
import { LogReader } from "../../src/log/read.js";
import { Streams } from "../../src/log/stream.js";
import { TypeBlocks } from "../../src/log/type-blocks.js";
import { Waits } from "../../src/log/wait.js";
import { CommitNews } from "../../src/publish/commit-news.js";
import { listCommits, type FeedPage } from "../../src/publish/feed.js";
import { vocabularyOfRoots } from "../../src/rules/roots.js";
import { DueBell } from "../../src/schedules/due-bell.js";
import { ScheduleFirer } from "../../src/schedules/firer.js";
import { runSchedules } from "../../src/schedules/run.js";
import { DueSweeper } from "../../src/schedules/sweeper.js";
import type { Timers } from "../../src/timers.js";
import type { IdGenerator } from "@iterate-platform/service/ids";
import type { BrokerConnection, SimulatedBroker } from "./simulated-broker.js";
import type { SimulatedLog } from "./simulated-log.js";
import { SimulatedLogStore } from "./simulated-log-store.js";
import type { Truth } from "./truth.js";
import type { VirtualTime } from "./virtual-time.js";
import type { Weather } from "./weather.js";

/** What a process finds around it. */
interface Surroundings {
  readonly log: SimulatedLog;
  readonly broker: SimulatedBroker;
  readonly truth: Truth;
  readonly time: VirtualTime;
  readonly weather: Weather;
  readonly ids: IdGenerator;
  /** The database takes no statements. */
  readonly isAway: boolean;
  /** Milliseconds since 1970. */
  clockMs(): number;
  fail(problem: string): void;
}

const quiet = createLog("simulation", { write: () => undefined });
/** Few, so that contexts are pushed out and loaded again. */
const heldContexts = 5;

export class Pod {
  readonly name: string;
  readonly store: SimulatedLogStore;
  readonly cache: HeadCache;
  readonly writer: LogWriter;
  readonly appender: LogAppender;
  readonly heads: HeadConfirmer;
  readonly reader: LogReader;
  readonly resolver: Resolver;
  readonly mixed: MixedReads;
  readonly news: CommitNews;
  readonly streams: Streams;
  readonly waits: Waits;
  readonly connection: BrokerConnection;
  readonly firer: ScheduleFirer;
  readonly #stopping = new AbortController();
  readonly #gone: Promise<never>;
  #isAlive = true;
  #leave!: (error: Error) => void;

  constructor(world: Surroundings, name: string, writer: number) {
    this.name = name;
    this.#gone = new Promise((_, reject) => (this.#leave = reject));
    this.#gone.catch(() => undefined);
    const timers = this.#timers(world);
    this.store = new SimulatedLogStore(world.log, {
      time: world.time,
      fateOf: () => world.weather.fateOf(),
      isAway: () => world.isAway,
      isDead: () => !this.#isAlive,
    });
    const bell = new DueBell();
    this.cache = new HeadCache({ maxContexts: heldContexts, store: this.store });
    this.connection = world.broker.connect();
    this.heads = new HeadConfirmer(this.cache, timers);
    this.resolver = new Resolver({ heads: this.heads, roots: vocabularyOfRoots });
    this.reader = new LogReader({
      store: this.store,
      heads: this.heads,
      types: new EventTypes(this.store),
      blocks: new TypeBlocks(this.store),
    });
    this.news = new CommitNews({ broker: this.connection, log: quiet, heads: this.heads, onUnstored: () => undefined, timers });
    this.writer = new LogWriter({
      store: this.store,
      cache: this.cache,
      onCommit: (batch) => {
        world.truth.told(batch);
        this.news.observe(batch);
      },
      onEphemeral: (batch) => {
        world.truth.toldEphemerals(batch);
        this.news.observeEphemerals(batch);
      },
      onDue: () => bell.ring(),
      writer,
      timers,
      clockMs: () => world.clockMs(),
      failpoint: () => undefined,
      onFault: (error) => world.fail(`a fault of ${name}: ${error instanceof Error ? error.stack : String(error)}`),
    });
    this.appender = new LogAppender({
      shardOf: () => ({ writer: this.writer, cache: this.cache, store: this.store }),
      json: new JsonThread(),
      newAppendId: world.ids.uuidv7,
      nowMs: () => world.clockMs(),
      timers,
    });
    this.mixed = new MixedReads({
      reader: this.reader,
      heads: this.heads,
      rings: this.news.rings,
      isHeld: (address) => {
        const head = this.cache.peek(address);
        return head !== undefined && this.writer.blocks.isHeld(head);
      },
    });
    this.streams = new Streams({ reader: this.reader, heads: this.heads, live: this.news.hub, nowMs: () => timers.nowMs() }, 100);
    this.waits = new Waits({ reader: this.reader, heads: this.heads, live: this.news.hub, maxWaiters: 100, timers });
    const refresh = (contextIds: readonly number[]) => this.cache.refresh(contextIds);
    const { schedules: store } = this.store;
    const { appender, cache } = this;
    const onFailure = (error: unknown): void => {
      // The database may be away, or an append not known to have landed: the claim ends by itself.
      if (!isCodedError(error) || !error.retryable)
        world.fail(`${name} cannot fire: ${error instanceof Error ? error.stack : String(error)}`);
    };
    this.firer = new ScheduleFirer({
      store,
      refresh,
      appender,
      failpoint: () => undefined,
      onFailure: (_, error) => onFailure(error),
    });
    void runSchedules({
      firer: this.firer,
      sweeper: new DueSweeper({ store, reducerVersion: cache.reducerVersion, refresh }),
      bell,
      sweepMs: 5_000,
      timers,
      stopping: this.#stopping.signal,
      onRound: () => undefined,
      onFailure,
    });
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** The answer of a call to this process; UNAVAILABLE when the process is gone before. */
  call<Answer>(answer: Promise<Answer>): Promise<Answer> {
    return Promise.race([answer, this.#gone]);
  }

  listCommits(partition: number, after: string, limit: number): Promise<FeedPage> {
    return this.call(listCommits(this.store, partition, after, limit));
  }

  /** From here on it does nothing, and nobody hears of it. Statements that were sent may still run. */
  crash(): void {
    this.#isAlive = false;
    this.#stopping.abort();
    this.connection.end();
    this.store.end();
    this.#leave(codedError("UNAVAILABLE", `${this.name} is gone`));
  }

  #timers({ time }: Surroundings): Timers {
    const whileAlive = (work: () => void) => (): void => {
      if (this.#isAlive) work();
    };
    return {
      nowMs: () => time.nowMs(),
      soon: (work) => time.soon(whileAlive(work)),
      after: (ms, work) => time.after(ms, whileAlive(work)),
    };
  }
}
