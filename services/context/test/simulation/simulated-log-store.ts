/**
 * `LogStore` over a simulated log. Statements take time, run in another order than they were sent in, lose their answers, run after
 * their client has given up, or meet a server that is away, as the world decides. Each sees the log as it is at one moment, never
 * less than a statement that ended before it was sent.
 */
import {
  smallBodyBytes,
  type EventBodies,
  type EventBytes,
  type FeedCommit,
  type FeedPosition,
  type LogLane,
  type LogStore,
  type OffsetRange,
  type StoredEvent,
} from "../../src/log/log-store.js";
import { blockSize } from "../../src/log/type-blocks.js";
import { SimulatedEventBytes } from "./simulated-event-bytes.js";
import { SimulatedLane } from "./simulated-lane.js";
import type { CommitRecord, EventRecord, SimulatedLog } from "./simulated-log.js";
import { SimulatedQueries } from "./simulated-queries.js";
import { SimulatedSchedules } from "./simulated-schedules.js";
import type { StoreWorld } from "./statements.js";

export class SimulatedLogStore extends SimulatedQueries implements LogStore {
  readonly #world: StoreWorld;
  readonly #lanes: SimulatedLane[] = [];
  readonly schedules: SimulatedSchedules;

  constructor(log: SimulatedLog, world: StoreWorld) {
    super(log, world);
    this.#world = world;
    this.schedules = new SimulatedSchedules(log, this.statements);
  }

  /** Statements sent and not answered, beside those of lanes. */
  get underWay(): number {
    return this.statements.underWay;
  }

  openLane(): LogLane {
    const lane = new SimulatedLane(this.log, this.#world);
    this.#lanes.push(lane);
    return lane;
  }

  /** The process is gone, and its connections with it. */
  end(): void {
    for (const lane of this.#lanes) lane.drop();
  }

  eventsAfter(contextId: number, after: number, limit: number): Promise<StoredEvent[]> {
    return this.statements.send("eventsAfter", () => this.#events({ contextId, after, through: Infinity }, null, limit));
  }

  async copyEventsAfter(contextId: number, after: number, limit: number, take: (event: EventBytes) => void): Promise<void> {
    const events = await this.statements.send("copyEventsAfter", () =>
      this.#events({ contextId, after, through: Infinity }, null, limit),
    );
    for (const event of events) take(new SimulatedEventBytes(event));
  }

  eventsOfTypesInRange(range: OffsetRange, types: readonly number[], limit: number): Promise<StoredEvent[]> {
    return this.statements.send("eventsOfTypesInRange", () => this.#events(range, types, limit));
  }

  eventsOfTypesInBlocks(range: OffsetRange, types: readonly number[], limit: number): Promise<StoredEvent[]> {
    return this.statements.send("eventsOfTypesInBlocks", () => {
      const through = Math.min(range.through, (this.log.byId(range.contextId)?.typeBlockMark ?? 0) * blockSize - 1);
      return this.#events({ ...range, through }, types, limit);
    });
  }

  bodiesOf(contextId: number, offsets: readonly number[]): Promise<EventBodies[]> {
    return this.statements.send("bodiesOf", () => {
      const wanted = new Set(offsets);
      const events = this.log.byId(contextId)?.events ?? [];
      return events.flatMap(({ offset, payload, metadata }) => (wanted.has(offset) ? [{ offset, payload, metadata }] : []));
    });
  }

  typeNames(types: readonly number[]): Promise<ReadonlyMap<number, string>> {
    return this.statements.send("typeNames", () => {
      const wanted = new Set(types);
      return new Map([...this.log.types].flatMap(([name, type]) => (wanted.has(type) ? [[type, name] as const] : [])));
    });
  }

  typeBlockMark(contextId: number): Promise<number> {
    return this.statements.send("typeBlockMark", () => this.log.byId(contextId)?.typeBlockMark ?? 0);
  }

  enterTypeBlocks(contextId: number, _from: number, to: number): Promise<void> {
    return this.statements.send("enterTypeBlocks", () => {
      const context = this.log.byId(contextId);
      if (context !== undefined) context.typeBlockMark = Math.max(context.typeBlockMark, to);
    });
  }

  commitsAfter(partition: number, position: FeedPosition, limit: number): Promise<FeedCommit[]> {
    return this.statements.send("commitsAfter", () =>
      this.log
        .feed(partition, isAfter(position))
        .slice(0, limit)
        .map(({ xid, contextId, commitNo, firstOffset, lastOffset, lastControl, traceparent, atUs }) => ({
          position: { xid: String(xid), contextId, commitNo },
          address: this.log.byId(contextId)!.address,
          firstOffset,
          lastOffset,
          lastControl,
          traceparent,
          atUs,
        })),
    );
  }

  hasCommitsAfter(partition: number, position: FeedPosition): Promise<boolean> {
    return this.statements.send("hasCommitsAfter", () => this.log.hasCommits(partition, isAfter(position)));
  }

  ping(): Promise<void> {
    return this.statements.send("ping", () => undefined);
  }

  #events({ contextId, after, through }: OffsetRange, types: readonly number[] | null, limit: number): StoredEvent[] {
    const context = this.log.byId(contextId);
    const found: StoredEvent[] = [];
    if (context === undefined) return found;
    for (let at = context.indexAfter(after); at < context.events.length && found.length < limit; at += 1) {
      const event = context.events[at]!;
      if (event.offset > through) break;
      if (types === null || types.includes(event.type)) found.push(storedEvent(event));
    }
    return found;
  }
}

function isAfter({ xid, contextId, commitNo }: FeedPosition): (commit: CommitRecord) => boolean {
  const after = BigInt(xid);
  return (commit) => {
    if (commit.xid !== after) return commit.xid > after;
    return commit.contextId > contextId || (commit.contextId === contextId && commit.commitNo > commitNo);
  };
}

function storedEvent({ key, payload, metadata, ...event }: EventRecord): StoredEvent {
  const { offset, type, formatVersion, createdAtUs, source, traceparent, bodyBytes } = event;
  const isSmall = bodyBytes <= smallBodyBytes;
  return {
    offset,
    type,
    formatVersion,
    createdAtUs,
    source,
    traceparent,
    idempotencyKey: key,
    payload: isSmall ? payload : null,
    metadata: isSmall ? metadata : null,
    bodyBytes,
  };
}
