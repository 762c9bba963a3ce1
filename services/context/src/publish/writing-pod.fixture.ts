/** A process of the service with its write side as well: appends go through the engine, and what they commit is told as in production. */
import { uuidv7 } from "@iterate-platform/service/ids";
import { JsonThread } from "../json/worker-thread.js";
import { LogAppender } from "../log/appender.js";
import type { AppendReceipt, ContextAddress } from "../log/contract.js";
import { event, service, type EventFields } from "../log/engine.fixture.js";
import { LogWriter } from "../log/log-writer.js";
import { MixedReads, type MixedPage } from "../log/mixed-read.js";
import { PostgresLogStore } from "../log/postgres/postgres-log-store.js";
import { realTimers } from "../timers.js";
import { Pod } from "./pod.fixture.js";

export class WritingPod extends Pod {
  readonly faults: unknown[] = [];
  readonly writer: LogWriter;
  readonly mixed: MixedReads;
  readonly #appender: LogAppender;
  readonly #json = new JsonThread();

  constructor(databaseUrl: string, brokerUrl: string) {
    super(databaseUrl, brokerUrl);
    const store = new PostgresLogStore(this.pool);
    this.writer = new LogWriter({
      store,
      cache: this.cache,
      onCommit: this.news.observe,
      onEphemeral: this.news.observeEphemerals,
      writer: 7,
      timers: realTimers,
      clockMs: Date.now,
      failpoint: () => undefined,
      onFault: (error) => void this.faults.push(error),
    });
    this.#appender = new LogAppender({
      shardOf: () => ({ writer: this.writer, cache: this.cache, store }),
      json: this.#json,
      newAppendId: uuidv7,
      nowMs: Date.now,
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
  }

  /** Appends through the engine; answers the offsets. */
  async put(address: ContextAddress, ...events: readonly EventFields[]): Promise<number[]> {
    const receipts: readonly AppendReceipt[] = await this.#appender.append({
      address,
      appendId: uuidv7(),
      events: events.map((fields) => event(fields)),
      writer: service,
      traceparent: null,
    });
    return receipts.map(({ offset }) => offset);
  }

  /** A page with ephemeral events. */
  read(address: ContextAddress, after = 0, limit = 500, types: readonly string[] = []): Promise<MixedPage> {
    return this.mixed.read(address, after, types, { limit, maxBytes: 8_388_608 });
  }

  override async close(): Promise<void> {
    await this.writer.settled();
    this.writer.close();
    await this.#json.close();
    await super.close();
  }
}
