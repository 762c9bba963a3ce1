/**
 * The way in: one append is made storable, recognised when it was sent before, and handed to the writer of its shard. The same
 * append id that is under way here already is answered together with it.
 */
import { partitionOf } from "@iterate-platform/service/ids";
import type { JsonThread } from "../json/worker-thread.js";
import { checkedAppendId, madeAtMs } from "./append-id.js";
import type { AppendCommand, Appender, AppendReceipt, ContextAddress, SqlSession, StorableEvent } from "./contract.js";
import { nameOf, type HeadCache } from "./head-cache.js";
import type { AppendToWrite, LogWriter, StoredAppend } from "./log-writer.js";
import { SentBefore } from "./sent-before.js";
import { storableEvents } from "./storable.js";

/**
 * An append id made this long ago is looked up before it joins a group: it is a retry, most likely. A younger one that is in the
 * log already makes its statement fail, which is put right, but for everyone in the group.
 */
const freshMs = 5_000;

/** Contexts whose shard is remembered. */
const maxPlaced = 50_000;

/** One database of the log. */
export interface LogShard {
  readonly writer: LogWriter;
  readonly cache: HeadCache;
  readonly session: SqlSession;
}

export interface LogAppenderOptions {
  /** The shard of a partition. */
  readonly shardOf: (partition: number) => LogShard;
  readonly json: JsonThread;
  readonly newAppendId: () => string;
  readonly nowMs: () => number;
}

export class LogAppender implements Appender {
  readonly #options: LogAppenderOptions;
  /** Where contexts are, which never changes while the process lives; spares a hash for each append. */
  readonly #shards = new Map<string, LogShard>();
  readonly #sentBefore = new Map<LogShard, SentBefore>();
  readonly #underWay = new Map<string, Promise<readonly AppendReceipt[]>>();

  constructor(options: LogAppenderOptions) {
    this.#options = options;
  }

  async append(command: AppendCommand): Promise<readonly AppendReceipt[]> {
    return this.start(command);
  }

  /** As `append`, but refuses what can be refused at once by throwing. */
  start(command: AppendCommand): Promise<readonly AppendReceipt[]> {
    const { appendId: given, address, writer, traceparent } = command;
    const events = storableEvents(command, this.#options.json);
    if (command.events.length === 0 && writer.lease === null) return Promise.resolve([]);
    if (given === null)
      return this.#shardOf(address).writer.write({ address, appendId: this.#options.newAppendId(), writer, traceparent, events });
    const appendId = checkedAppendId(given);
    const name = `${appendId}${nameOf(address)}`;
    const running = this.#underWay.get(name);
    if (running !== undefined) return running;
    const shard = this.#shardOf(address);
    const isFresh = Math.abs(this.#options.nowMs() - madeAtMs(appendId)) <= freshMs;
    const answer = shard.writer.write({
      address,
      appendId,
      writer,
      traceparent,
      events: isFresh ? events : this.#unlessStored(shard, command, appendId, events),
    });
    this.#underWay.set(name, answer);
    const forget = (): void => void this.#underWay.delete(name);
    answer.then(forget, forget);
    return answer;
  }

  /** The events, unless the append is in the log already: then its receipts. It keeps its place among the others meanwhile. */
  async #unlessStored(
    shard: LogShard,
    { address, events }: AppendCommand,
    appendId: string,
    storable: AppendToWrite["events"],
  ): Promise<readonly StorableEvent[] | StoredAppend> {
    let before = this.#sentBefore.get(shard);
    if (before === undefined) this.#sentBefore.set(shard, (before = new SentBefore(shard.cache, shard.session)));
    const [receipts, complete] = await Promise.all([before.answerOf(address, appendId, { events }), storable]);
    return receipts === null ? complete : { receipts };
  }

  #shardOf(address: ContextAddress): LogShard {
    const name = nameOf(address);
    let shard = this.#shards.get(name);
    if (shard === undefined) {
      shard = this.#options.shardOf(partitionOf(address.owner, address.path));
      if (this.#shards.size >= maxPlaced) this.#shards.clear();
      this.#shards.set(name, shard);
    }
    return shard;
  }
}
