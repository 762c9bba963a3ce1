/**
 * Pages of one context's log as a copy in binary form. The driver makes strings of all it reads, which costs more than everything else
 * about a page; a copy comes as the bytes that were stored. It takes no values and is planned each time, so it is for long pages.
 */
import { codedError } from "iterate/lib";
import type { CopyListener } from "@iterate-platform/service/postgres";
import { truncatedError } from "../../core/retention.js";
import { smallBodyBytes, type EventBytes, type StoredEvent } from "../log-store.js";
import type { Statement } from "./sql-session.js";

const isLarge = (column: string): string => `octet_length(${column}) > ${smallBodyBytes}`;
const small = (column: string): string => `case when octet_length(${column}) <= ${smallBodyBytes} then ${column} end`;

/**
 * Events of context `contextId` after `after`, at most `limit`. As all reads of the log it looks at the same moment at what is kept:
 * the first offset is in each row when events after `after` are gone.
 */
export function copyEventsAfter(contextId: number, after: number, limit: number): Statement {
  for (const value of [contextId, after, limit])
    if (!Number.isSafeInteger(value)) throw codedError("INTERNAL", `${value} is no whole number that a statement may hold`);
  return {
    name: "copy_events_after",
    text: `copy (
      select "offset", type, format_version, created_at,
        (select first_offset from retention where context_id = ${contextId} and first_offset > ${after}::bigint + 1),
        case when ${isLarge("payload")} or ${isLarge("metadata")}
          then coalesce(octet_length(payload), 0) + coalesce(octet_length(metadata), 0) end,
        source, traceparent, idempotency_key, ${small("payload")}, ${small("metadata")}
      from event where context_id = ${contextId} and "offset" > ${after} order by "offset" limit ${limit}
    ) to stdout (format binary)`,
  };
}

const columnCount = 11;
/** Signature, flags and the length of an extension, before the first row. */
const signature = Buffer.from("PGCOPY\n\xff\r\n\0", "latin1");
const headerBytes = signature.length + 8;
/** In place of a count of columns: that was all. */
const trailer = -1;
const null_ = -1;
/** Postgres counts microseconds from 2000. */
const epochUs = Date.UTC(2000, 0, 1) * 1_000;
const twoTo32 = 2 ** 32;

/** Hands over the events of one `copyEventsAfter`. */
export class CopiedEvents {
  readonly #after: number;
  readonly #take: (event: EventBytes) => void;
  readonly #event = new CopiedEvent();
  #isBegun = false;
  #count = 0;

  constructor(after: number, take: (event: EventBytes) => void) {
    this.#after = after;
    this.#take = take;
  }

  /** Events so far. */
  get count(): number {
    return this.#count;
  }

  /**
   * Reads whole rows.
   *
   * @throws CodedError OFFSET_TRUNCATED; INTERNAL when the data is not what the statement asks for; what the taker throws.
   */
  readonly read: CopyListener = (data, from, end) => {
    let at = this.#isBegun ? from : behindHeader(data, from, end);
    this.#isBegun = true;
    while (at < end) {
      const columns = data.readInt16BE(at);
      at += 2;
      if (columns === trailer) break;
      if (columns !== columnCount) throw unexpected(`${columns} columns`);
      at = this.#event.read(data, at);
      if (this.#event.firstOffset !== 0) throw truncatedError(this.#after, this.#event.firstOffset);
      this.#count += 1;
      this.#take(this.#event);
    }
    if (at !== end) throw unexpected("a part of a row");
  };
}

function behindHeader(data: Buffer, from: number, end: number): number {
  if (end - from < headerBytes || signature.compare(data, from, from + signature.length) !== 0) throw unexpected("no header");
  return from + headerBytes + data.readInt32BE(from + headerBytes - 4);
}

function unexpected(what: string): Error {
  return codedError("INTERNAL", `a copy of events holds ${what}`);
}

class CopiedEvent implements EventBytes {
  memory: Buffer = signature;
  offset = 0;
  type = 0;
  formatVersion = 0;
  createdAtUs = 0;
  source = 0;
  sourceEnd = 0;
  traceparent = 0;
  traceparentEnd = 0;
  key = 0;
  keyEnd = 0;
  payload = 0;
  payloadEnd = 0;
  metadata = 0;
  metadataEnd = 0;
  bodyBytes = 0;
  isWithoutBodies = false;
  /** The first offset that is kept, when it is behind where the copy began; 0 otherwise. */
  firstOffset = 0;

  /** Reads the columns of a row from `from` on; answers where they end. */
  read(data: Buffer, from: number): number {
    this.memory = data;
    // Of the first four none is null: they lie where they always lie.
    this.offset = int64(data, from + 4);
    this.type = int32(data, from + 16);
    this.formatVersion = data.readInt16BE(from + 24);
    this.createdAtUs = epochUs + int64(data, from + 30);
    let at = from + 38;
    if (int32(data, at) === null_) {
      this.firstOffset = 0;
      at += 4;
    } else {
      this.firstOffset = int64(data, at + 4);
      at += 12;
    }
    let largeBytes = 0;
    if (int32(data, at) === null_) at += 4;
    else {
      largeBytes = int32(data, at + 4);
      at += 8;
    }
    this.source = at + 4;
    at = this.sourceEnd = this.source + int32(data, at);
    this.traceparent = at + 4;
    this.traceparentEnd = endOf(data, at);
    at = Math.max(this.traceparentEnd, this.traceparent);
    this.key = at + 4;
    this.keyEnd = endOf(data, at);
    at = Math.max(this.keyEnd, this.key);
    this.payload = at + 4;
    this.payloadEnd = endOf(data, at);
    at = Math.max(this.payloadEnd, this.payload);
    this.metadata = at + 4;
    this.metadataEnd = endOf(data, at);
    at = Math.max(this.metadataEnd, this.metadata);
    this.isWithoutBodies = largeBytes > 0;
    this.bodyBytes = this.isWithoutBodies
      ? largeBytes
      : Math.max(0, this.payloadEnd - this.payload) + Math.max(0, this.metadataEnd - this.metadata);
    return at;
  }

  toStored(): StoredEvent {
    const { memory, offset, type, formatVersion, createdAtUs, bodyBytes } = this;
    const text = (at: number, end: number): string | null => (end < 0 ? null : memory.toString("utf8", at, end));
    return {
      offset,
      type,
      formatVersion,
      createdAtUs,
      source: memory.toString("utf8", this.source, this.sourceEnd),
      traceparent: text(this.traceparent, this.traceparentEnd),
      idempotencyKey: text(this.key, this.keyEnd),
      payload: this.isWithoutBodies ? null : text(this.payload, this.payloadEnd),
      metadata: this.isWithoutBodies ? null : text(this.metadata, this.metadataEnd),
      bodyBytes,
    };
  }
}

/** Where the text of the column at `at` ends; −1 when it is null. */
function endOf(data: Buffer, at: number): number {
  const length = int32(data, at);
  return length === null_ ? -1 : at + 4 + length;
}

function int32(data: Buffer, at: number): number {
  return (data[at]! << 24) | (data[at + 1]! << 16) | (data[at + 2]! << 8) | data[at + 3]!;
}

function int64(data: Buffer, at: number): number {
  return int32(data, at) * twoTo32 + (int32(data, at + 4) >>> 0);
}
