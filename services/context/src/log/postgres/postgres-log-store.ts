/** The log in Postgres. */
import type { Pool } from "@iterate-platform/service/postgres";
import { truncatedError } from "../../core/retention.js";
import type {
  EventBodies,
  EventBytes,
  FeedCommit,
  FeedPosition,
  LogLane,
  LogStore,
  OffsetRange,
  StoredEvent,
} from "../log-store.js";
import { commitsAfter, hasCommitsAfter, type FeedRow } from "./feed.sql.js";
import { CopiedEvents, copyEventsAfter } from "./copied-events.js";
import { PostgresLane } from "./lane.js";
import type { ScheduleStore } from "../../schedules/contract.js";
import { PostgresScheduleStore } from "./postgres-schedule-store.js";
import { PostgresQueries } from "./queries.js";
import {
  bodiesOf,
  enterTypeBlocks,
  eventsAfter,
  eventsOfTypesInBlocks,
  eventsOfTypesInRange,
  firstOffset,
  typeBlockMark,
  typesByNumber,
  type BodyRow,
  type EventRow,
} from "./read.sql.js";
import { LaneSession, PooledSession } from "./sql-session.js";

export class PostgresLogStore extends PostgresQueries<PooledSession> implements LogStore {
  readonly schedules: ScheduleStore;
  readonly #pool: Pool;

  /** Named statements must keep their plans: `planCacheMode: "force_generic_plan"`. Each lane keeps one connection of the pool. */
  constructor(pool: Pool) {
    super(new PooledSession(pool));
    this.schedules = new PostgresScheduleStore(this.session);
    this.#pool = pool;
  }

  openLane(): LogLane {
    return new PostgresLane(new LaneSession(this.#pool));
  }

  async eventsAfter(contextId: number, after: number, limit: number): Promise<StoredEvent[]> {
    return storedEvents(after, await this.session.query<EventRow>(eventsAfter, [contextId, after, limit]));
  }

  async copyEventsAfter(contextId: number, after: number, limit: number, take: (event: EventBytes) => void): Promise<void> {
    const rows = new CopiedEvents(after, take);
    await this.session.copyOut(copyEventsAfter(contextId, after, limit), rows.read);
    // Only an event says that others are gone: where there is none it is asked for.
    if (rows.count === 0) throwIfGone(after, await this.#firstOffset(contextId));
  }

  async #firstOffset(contextId: number): Promise<number> {
    const [row] = await this.session.query<readonly [string]>(firstOffset, [contextId]);
    return row === undefined ? 1 : Number(row[0]);
  }

  async eventsOfTypesInRange(
    { contextId, after, through }: OffsetRange,
    types: readonly number[],
    limit: number,
  ): Promise<StoredEvent[]> {
    return storedEvents(after, await this.session.query<EventRow>(eventsOfTypesInRange, [contextId, after, limit, types, through]));
  }

  async eventsOfTypesInBlocks(
    { contextId, after, through }: OffsetRange,
    types: readonly number[],
    limit: number,
  ): Promise<StoredEvent[]> {
    return storedEvents(
      after,
      await this.session.query<EventRow>(eventsOfTypesInBlocks, [contextId, after, limit, types, through]),
    );
  }

  async bodiesOf(contextId: number, offsets: readonly number[]): Promise<EventBodies[]> {
    const rows = await this.session.query<BodyRow>(bodiesOf, [contextId, offsets]);
    if (rows.length < offsets.length) throwIfGone(Math.min(...offsets) - 1, await this.#firstOffset(contextId));
    return rows.map(([offset, payload, metadata]) => ({ offset: Number(offset), payload, metadata }));
  }

  async typeNames(types: readonly number[]): Promise<ReadonlyMap<number, string>> {
    return new Map(await this.session.query<readonly [number, string]>(typesByNumber, [types]));
  }

  async typeBlockMark(contextId: number): Promise<number> {
    const [row] = await this.session.query<readonly [string]>(typeBlockMark, [contextId]);
    return row === undefined ? 0 : Number(row[0]);
  }

  async enterTypeBlocks(contextId: number, from: number, to: number): Promise<void> {
    await this.session.query(enterTypeBlocks, [contextId, from, to]);
  }

  async commitsAfter(partition: number, { xid, contextId, commitNo }: FeedPosition, limit: number): Promise<FeedCommit[]> {
    return (await this.session.query<FeedRow>(commitsAfter, [partition, xid, contextId, commitNo, limit])).map(feedCommit);
  }

  async hasCommitsAfter(partition: number, { xid, contextId, commitNo }: FeedPosition): Promise<boolean> {
    return (await this.session.query(hasCommitsAfter, [partition, xid, contextId, commitNo])).length > 0;
  }

  async ping(): Promise<void> {
    await this.session.query({ name: "ping", text: "select 1" }, []);
  }
}

/** @throws CodedError OFFSET_TRUNCATED when `first` is the first offset that is kept, and events after `after` are gone. */
function throwIfGone(after: number, first: number): void {
  if (first > after + 1) throw truncatedError(after, first);
}

/** @throws CodedError OFFSET_TRUNCATED when the rows say so. */
function storedEvents(after: number, rows: readonly EventRow[]): StoredEvent[] {
  if (rows.length === 1 && rows[0]![1] === null) throw truncatedError(after, Number(rows[0]![0]));
  return rows.map(storedEvent);
}

function storedEvent([
  offset,
  type,
  formatVersion,
  createdAtUs,
  source,
  traceparent,
  idempotencyKey,
  payload,
  metadata,
  bodyBytes,
]: EventRow): StoredEvent {
  return {
    offset: Number(offset),
    type: type!,
    formatVersion,
    createdAtUs: Number(createdAtUs),
    source,
    traceparent,
    idempotencyKey,
    payload,
    metadata,
    bodyBytes,
  };
}

function feedCommit([
  xid,
  contextId,
  commitNo,
  owner,
  path,
  firstOffset,
  lastOffset,
  lastControl,
  traceparent,
  atUs,
]: FeedRow): FeedCommit {
  return {
    position: { xid, contextId: Number(contextId), commitNo: Number(commitNo) },
    address: owner === null || path === null ? null : { owner, path },
    firstOffset: Number(firstOffset),
    lastOffset: Number(lastOffset),
    lastControl: Number(lastControl),
    traceparent,
    atUs: Number(atUs),
  };
}
