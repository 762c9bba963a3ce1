/**
 * The way in: one append is made storable, recognised when it was sent before, and handed to the writer of its shard. The same
 * append id that is under way here already is answered together with it.
 */
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import { partitionOf } from "@iterate-platform/service/ids";
import type { JsonThread } from "../json/worker-thread.js";
import type { Timers } from "../timers.js";
import { Vocabulary } from "../core/vocabulary.js";
import { checkedAppendId, madeAtMs } from "./append-id.js";
import { AppendPolicies } from "./append-policies.js";
import type { AppendCommand, Appender, AppendReceipt, ContextAddress, PolicyGuard, StorableEvent } from "./contract.js";
import { EventAdmission } from "./event-admission.js";
import { nameOf, type HeadCache } from "./head-cache.js";
import type { LogQueries } from "./log-store.js";
import { OriginJails } from "./origin-jails.js";
import type { AppendToWrite, LogWriter, StoredAppend } from "./log-writer.js";
import { checkAncestors } from "./run-ancestors.js";
import { SentBefore } from "./sent-before.js";
import { storableEvents, type Door } from "./storable.js";

/**
 * An append id made this long ago is looked up before it joins a group: it is a retry, most likely. A younger one that is in the
 * log already makes its statement fail, which is put right, but for everyone in the group.
 */
const freshMs = 5_000;

/** Contexts whose shard is remembered: the busy ones. An idle context is to cost nothing. */
const maxPlaced = 4_096;

/** One database of the log. */
export interface LogShard {
  readonly writer: LogWriter;
  readonly cache: HeadCache;
  readonly store: LogQueries;
}

export interface LogAppenderOptions {
  /** The shard of a partition. */
  readonly shardOf: (partition: number) => LogShard;
  readonly json: JsonThread;
  readonly newAppendId: () => string;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
  readonly timers?: Timers;
  /** The types that may be appended, and in which formats; those of the release when absent. */
  readonly vocabulary?: Vocabulary;
}

export class LogAppender implements Appender {
  readonly #options: LogAppenderOptions;
  readonly #door: Door;
  /** Where contexts are, which never changes while the process lives; spares a hash for each append. */
  readonly #shards = new Map<string, LogShard>();
  readonly #sentBefore = new Map<LogShard, SentBefore>();
  readonly #policies: AppendPolicies;
  readonly #jails: OriginJails;

  constructor(options: LogAppenderOptions) {
    this.#options = options;
    const { shardOf, timers, json, nowMs } = options;
    const parts = { cacheOf: (partition: number) => shardOf(partition).cache, ...(timers === undefined ? {} : { timers }) };
    this.#policies = new AppendPolicies(parts);
    this.#jails = new OriginJails(parts);
    this.#door = { admission: new EventAdmission(options.vocabulary ?? new Vocabulary()), json, nowMs };
  }

  append(command: AppendCommand): Promise<readonly AppendReceipt[]> {
    try {
      return this.#start(command, "when-old");
    } catch (refusal) {
      const error: Error = refusal instanceof Error ? refusal : codedError("INTERNAL", "the append could not be taken");
      return Promise.reject(error);
    }
  }

  #repeat(command: AppendCommand): Promise<readonly AppendReceipt[]> {
    return this.#start(command, "always");
  }

  #start(command: AppendCommand, lookUp: "when-old" | "always"): Promise<readonly AppendReceipt[]> {
    const { appendId: given, address, writer, traceparent } = command;
    const name = nameOf(address);
    const storable = storableEvents(command, name, this.#door);
    if (command.events.length === 0 && writer.lease === null) return Promise.resolve([]);
    const shard = this.#shardOf(address, name);
    const guard = this.#policies.governs(command) ? this.#policies.guardOf(command, shard.cache) : null;
    const isJudged = guard === undefined || this.#jails.governs(command);
    const admitted = isJudged ? this.#admitted(command, storable, guard) : storable;
    const asksForRuns = command.events.some(({ type }) => type === itx.runRequested.type);
    const events = asksForRuns ? this.#withAncestors(shard, address, admitted) : admitted;
    // Whoever waits for it hears of a failure; where nobody does, because the append is answered in another way, it is none.
    if (events instanceof Promise) events.catch(() => undefined);
    if (given === null)
      return shard.writer.write({
        address,
        name,
        key: null,
        appendId: this.#options.newAppendId(),
        writer,
        traceparent,
        guard: guard ?? null,
        events,
      });
    const appendId = checkedAppendId(given);
    const key = appendId + name;
    const underWay = shard.writer.underWay(key);
    // Once the first has ended the log tells whether this is the same append.
    if (underWay !== undefined)
      return underWay.then(
        () => this.#repeat(command),
        () => this.#repeat(command),
      );
    // Nothing of ephemeral events is in the log by which a retry could be recognised.
    const isFindable = command.events.length === 0 || command.events.some(({ isEphemeral }) => !isEphemeral);
    const isFresh = !isFindable || (lookUp === "when-old" && Math.abs(this.#options.nowMs() - madeAtMs(appendId)) <= freshMs);
    return shard.writer.write({
      address,
      name,
      key,
      appendId,
      writer,
      traceparent,
      guard: guard ?? null,
      events: isFresh ? events : this.#unlessStored(shard, command, appendId, events),
    });
  }

  /** The events, once the runs they name are found. */
  async #withAncestors(
    shard: LogShard,
    address: ContextAddress,
    admitted: readonly StorableEvent[] | Promise<readonly StorableEvent[]>,
  ): Promise<readonly StorableEvent[]> {
    const events = await admitted;
    await checkAncestors(events, address, shard);
    return events;
  }

  /** The events, once the project's policy admits them where its commit does not prove that, and so does the context the code runs in. */
  async #admitted(
    command: AppendCommand,
    storable: readonly StorableEvent[] | Promise<readonly StorableEvent[]>,
    guard: PolicyGuard | null | undefined,
  ): Promise<readonly StorableEvent[]> {
    const [events] = await Promise.all([
      storable,
      guard === undefined ? this.#policies.check(command) : undefined,
      this.#jails.governs(command) ? this.#jails.check(command) : undefined,
    ]);
    return events;
  }

  /** The events, unless the append is in the log already: then its receipts. It keeps its place among the others meanwhile. */
  async #unlessStored(
    shard: LogShard,
    { address, events }: AppendCommand,
    appendId: string,
    storable: AppendToWrite["events"],
  ): Promise<readonly StorableEvent[] | StoredAppend> {
    let before = this.#sentBefore.get(shard);
    if (before === undefined)
      this.#sentBefore.set(shard, (before = new SentBefore(shard.cache, shard.store, this.#options.timers)));
    const [receipts, complete] = await Promise.all([before.answerOf(address, appendId, { events }), storable]);
    return receipts === null ? complete : { receipts };
  }

  #shardOf(address: ContextAddress, name: string): LogShard {
    let shard = this.#shards.get(name);
    if (shard === undefined) {
      shard = this.#options.shardOf(partitionOf(address.owner, address.path));
      if (this.#shards.size >= maxPlaced) this.#shards.clear();
      this.#shards.set(name, shard);
    }
    return shard;
  }
}
