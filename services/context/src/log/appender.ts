/**
 * The way in: one append is made storable, recognised when it was sent before, and handed to the writer of its shard. The same
 * append id that is under way here already is answered together with it.
 */
import { partitionOf } from "@iterate-platform/service/ids";
import type { JsonThread } from "../json/worker-thread.js";
import { appendIdBytes, checkedAppendId, madeAtMs } from "./append-id.js";
import type { AppendCommand, Appender, AppendReceipt, ContextAddress, SqlSession } from "./contract.js";
import { nameOf, type HeadCache } from "./head-cache.js";
import { committedAppends, type AppendRow } from "./head.sql.js";
import type { LogWriter } from "./log-writer.js";
import { keysOf, lookUpKeys, storedReceipts } from "./look-up.js";
import { int8Array, uuidArray } from "./pg-array.js";
import { storableEvents } from "./storable.js";

/**
 * An append id made this long ago is looked up before it joins a group: it is a retry, most likely. A younger one that is in the
 * log already makes its statement fail, which is put right, but for everyone in the group.
 */
const freshMs = 2_000;

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
    if (given === null) return this.#shardOf(address).writer.write({ address, appendId: this.#options.newAppendId(), writer, traceparent, events });
    const appendId = checkedAppendId(given);
    const name = `${appendId}${nameOf(address)}`;
    const running = this.#underWay.get(name);
    if (running !== undefined) return running;
    const shard = this.#shardOf(address);
    const write = (): Promise<readonly AppendReceipt[]> => shard.writer.write({ address, appendId, writer, traceparent, events });
    const isFresh = Math.abs(this.#options.nowMs() - madeAtMs(appendId)) <= freshMs;
    const answer = isFresh ? write() : this.#answerOf(shard, command, appendId).then((stored) => stored ?? write());
    this.#underWay.set(name, answer);
    const forget = (): void => void this.#underWay.delete(name);
    answer.then(forget, forget);
    return answer;
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

  /** What an append that is in the log already was answered; `null` when it is not there. */
  async #answerOf({ cache, session }: LogShard, { address, events }: AppendCommand, appendId: string): Promise<readonly AppendReceipt[] | null> {
    const [head] = await cache.load([address]);
    if (head === undefined) return null;
    const [row] = await session.query<AppendRow>(committedAppends, [int8Array([head.contextId]), uuidArray([appendIdBytes(appendId)])]);
    if (row === undefined) return null;
    const keys = await lookUpKeys(session, head.contextId, keysOf([{ events }]));
    return storedReceipts({ events }, { offset: Number(row[2]), createdAtUs: Number(row[3]) }, keys);
  }
}
