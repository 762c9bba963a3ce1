/** One process of the service as its read side sees it, over a real database and broker; several of them share both in a test. */
import { createLog, type Log } from "@iterate-platform/service/log";
import { connectBroker, type Broker } from "@iterate-platform/service/nats";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { HeadConfirmer } from "../log/confirm.js";
import type { CommittedBatch, ContextAddress } from "../log/contract.js";
import { EventTypes } from "../log/event-types.js";
import { HeadCache } from "../log/head-cache.js";
import type { Page } from "../log/page.js";
import { LogReader } from "../log/read.js";
import { plainSource, write, type WrittenEvent } from "../log/sql-log.fixture.js";
import { PostgresLogStore } from "../log/postgres/postgres-log-store.js";
import { streamEvents, type StreamRequest } from "../log/stream.js";
import { TypeBlocks } from "../log/type-blocks.js";
import { Waits } from "../log/wait.js";
import { CommitNews } from "./commit-news.js";
import { CommitStream } from "./commit-stream.js";

export const quietLog: Log = createLog("context", { write: () => undefined });

export class Pod {
  readonly pool: Pool;
  readonly broker: Broker;
  readonly cache: HeadCache;
  readonly heads: HeadConfirmer;
  readonly reader: LogReader;
  readonly news: CommitNews;
  readonly stream: CommitStream;
  readonly waits: Waits;

  constructor(databaseUrl: string, brokerUrl: string) {
    this.pool = createPool({ url: databaseUrl, applicationName: "context", max: 8 });
    this.broker = connectBroker({ url: brokerUrl, name: "context", log: quietLog });
    const store = new PostgresLogStore(this.pool);
    this.cache = new HeadCache({ maxContexts: 1_000, store });
    this.heads = new HeadConfirmer(this.cache);
    this.reader = new LogReader({ store, heads: this.heads, types: new EventTypes(store), blocks: new TypeBlocks(store) });
    this.stream = new CommitStream({ broker: this.broker, log: quietLog, replicas: 1 });
    this.news = new CommitNews({ broker: this.broker, log: quietLog, heads: this.heads, onUnstored: () => this.stream.ensure() });
    this.waits = new Waits({ reader: this.reader, heads: this.heads, live: this.news.hub, maxWaiters: 100 });
  }

  /** Commits `events` in one commit and tells of it as an append of this process does; answers the offset of the first. */
  async append(address: ContextAddress, ...events: readonly WrittenEvent[]): Promise<number> {
    const { firstOffset, batch } = await this.commit(address, events);
    this.news.observe(batch);
    return firstOffset;
  }

  /** Commits and tells nobody. */
  async commit(address: ContextAddress, events: readonly WrittenEvent[]): Promise<{ firstOffset: number; batch: CommittedBatch }> {
    const { commitNo, firstOffset } = await write(this.pool, address, events);
    const head = (await this.heads.confirm(address))!;
    const lastOffset = firstOffset + events.length - 1;
    const { rows: times } = await this.pool.query<{ us: string }>(
      `select (extract(epoch from at) * 1000000)::bigint as us from commit where context_id = $1 and commit_no = $2`,
      [head.contextId, commitNo],
    );
    const storable = events.map(({ type, payload, metadata, key, source }) => ({
      type,
      payload: payload === null ? null : Buffer.from(payload ?? "{}"),
      metadata: metadata == null ? null : Buffer.from(metadata),
      idempotencyKey: key ?? null,
      bodyDigest: null,
      expectedOffset: null,
      source: source ?? plainSource,
      traceparent: null,
      formatVersion: 1,
      control: undefined,
      isEphemeral: false,
      bytes: (payload ?? "{}").length + (metadata ?? "").length,
    }));
    const rows = storable.map((event, at) => ({ event, offset: firstOffset + at }));
    return {
      firstOffset,
      batch: {
        atUs: Number(times[0]!.us),
        commits: [{ head: { ...head, commitNo, lastOffset }, commitNo, firstOffset, lastOffset, rows, traceparent: null }],
      },
    };
  }

  follow(request: Omit<StreamRequest, "types"> & { readonly types?: readonly string[] }): Follower {
    const leaving = new AbortController();
    const parts = { reader: this.reader, heads: this.heads, live: this.news.hub, nowMs: () => performance.now() };
    return new Follower(streamEvents(parts, { types: [], ...request }, leaving.signal), leaving);
  }

  async close(): Promise<void> {
    await this.news.close(0);
    await this.stream.close();
    await this.broker.close(200);
    await this.pool.end();
  }
}

/** A reader of a stream that keeps what it was sent, pulling as fast as it is told to. */
export class Follower {
  readonly #stream: AsyncGenerator<Page>;
  readonly #leaving: AbortController;
  readonly pages: Page[] = [];
  readonly offsets: number[] = [];
  /** Offset and payload, as text. */
  readonly bodies: string[] = [];

  constructor(stream: AsyncGenerator<Page>, leaving: AbortController) {
    this.#stream = stream;
    this.#leaving = leaving;
  }

  async step(): Promise<Page> {
    const { value } = (await this.#stream.next()) as { value: Page };
    this.pages.push(value);
    for (const { offset, payload } of value.events) {
      this.offsets.push(Number(offset));
      this.bodies.push(`${offset} ${Buffer.from(payload ?? []).toString()}`);
    }
    return value;
  }

  /** Pulls until everything up to `offset` was sent. */
  async until(offset: number): Promise<this> {
    while ((this.pages.at(-1)?.scannedThrough ?? -1) < offset) await this.step();
    return this;
  }

  async leave(): Promise<void> {
    this.#leaving.abort(new Error("the reader left"));
    await this.#stream.return(undefined as never).catch(() => undefined);
  }
}
