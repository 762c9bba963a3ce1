/**
 * Reading pages of one context's log, each with a proof of how far it looked. A page without a type filter is one statement that
 * reaches what is committed when it runs; a filtered one looks no further than a head that was read before it, so the proof holds
 * whatever is appended meanwhile.
 */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { isCodedError } from "iterate/lib";
import { firstOffsetOf } from "../core/retention.js";
import { closedFirstOffset, type ContextAddress } from "./contract.js";
import type { HeadConfirmer } from "./confirm.js";
import { PageEncoder } from "./encoded-page.js";
import type { EventTypes } from "./event-types.js";
import { smallBodyBytes, type LogStore, type OffsetRange, type StoredEvent } from "./log-store.js";
import type { Page, PageBounds, Reads } from "./page.js";
import { EventDecoder } from "./stored-event.js";
import { blockSize, type TypeBlocks } from "./type-blocks.js";

/** A stretch of a log that is looked through at once. */
interface Segment {
  readonly through: number;
  readonly find: (types: readonly number[], limit: number) => Promise<StoredEvent[]>;
}

/** From so many events on a page costs less by a copy than by rows. */
const longPage = 64;
/** Ranges up to this many offsets are looked through event by event rather than by their blocks. */
const directRange = 8 * blockSize;

export interface LogReaderParts {
  readonly store: LogStore;
  readonly heads: HeadConfirmer;
  readonly types: EventTypes;
  readonly blocks: TypeBlocks;
}

export class LogReader implements Reads {
  readonly #parts: LogReaderParts;
  #statements = 0;

  constructor(parts: LogReaderParts) {
    this.#parts = parts;
  }

  /** Page statements sent so far: what cost tests count. */
  get statements(): number {
    return this.#statements;
  }

  async read(
    address: ContextAddress,
    after: number,
    types: readonly string[],
    bounds: PageBounds,
    signal?: AbortSignal,
  ): Promise<Page> {
    try {
      return await this.#read(address, after, types, bounds, signal);
    } catch (error) {
      if (!isClosed(error)) throw error;
      this.#parts.heads.forget(address);
      return this.#read(address, after, types, bounds, signal);
    }
  }

  async #read(
    address: ContextAddress,
    after: number,
    types: readonly string[],
    bounds: PageBounds,
    signal: AbortSignal | undefined,
  ): Promise<Page> {
    const { heads } = this.#parts;
    const head = types.length === 0 ? await heads.known(address) : await heads.confirm(address);
    if (head === undefined) return emptyAtHead(after);
    const page = (after: number): Page | Promise<Page> => {
      if (types.length === 0)
        return bounds.isAnyForm === true && Math.min(bounds.limit, head.lastOffset - after) >= longPage
          ? this.#encodedPageOfAll(head.contextId, after, bounds)
          : this.pageOfAll(head.contextId, after, bounds);
      return head.lastOffset <= after
        ? emptyAtHead(after)
        : this.#pageOfTypes(head.contextId, after, head.lastOffset, types, bounds, signal);
    };
    return after === 0 ? fromStart(firstOffsetOf(head.core), page) : page(after);
  }

  /** The page after `after` of a context by its id, in one statement. */
  async pageOfAll(contextId: number, after: number, bounds: PageBounds): Promise<Page> {
    // One row more than wanted tells whether the page reaches the head.
    this.#statements += 1;
    const rows = await this.#parts.store.eventsAfter(contextId, after, bounds.limit + 1);
    const { events, bytes, isCut } = await this.#decode(contextId, rows, bounds);
    return { events, bytes, isAtHead: !isCut, scannedAfter: after, scannedThrough: Number(events.at(-1)?.offset ?? after) };
  }

  /** The same, its events as bytes where there are any. */
  async #encodedPageOfAll(contextId: number, after: number, bounds: PageBounds): Promise<Page> {
    const { store, types } = this.#parts;
    const encoder = new PageEncoder({
      after,
      bounds,
      typeField: (type) => types.knownField(type),
      decode: (stored) => this.#events(contextId, stored),
    });
    this.#statements += 1;
    await store.copyEventsAfter(contextId, after, bounds.limit + 1, encoder.take);
    return (await encoder.page()) ?? emptyAtHead(after);
  }

  async #pageOfTypes(
    contextId: number,
    after: number,
    through: number,
    names: readonly string[],
    bounds: PageBounds,
    signal: AbortSignal | undefined,
  ): Promise<Page> {
    const types = await this.#parts.types.numbersOf(names);
    if (types.length === 0) return { events: [], bytes: 0, scannedAfter: after, scannedThrough: through, isAtHead: true };
    const events: Event[] = [];
    let bytes = 0;
    let position = after;
    while (position < through) {
      signal?.throwIfAborted();
      const segment = await this.#segment({ contextId, after: position, through });
      const left = { limit: bounds.limit - events.length, maxBytes: Math.max(0, bounds.maxBytes - bytes) };
      const rows = await segment.find(types, left.limit + 1);
      const found = await this.#decode(contextId, rows, left, events.length > 0);
      events.push(...found.events);
      bytes += found.bytes;
      if (found.isCut)
        return { events, bytes, scannedAfter: after, scannedThrough: Number(events.at(-1)!.offset), isAtHead: false };
      position = segment.through;
      if (position - after >= (bounds.maxScan ?? Infinity)) break;
    }
    return { events, bytes, scannedAfter: after, scannedThrough: position, isAtHead: position === through };
  }

  /** What to look through next: what the blocks answer for, then the rest of the log event by event. */
  async #segment(rest: OffsetRange): Promise<Segment> {
    const { store, blocks } = this.#parts;
    const { contextId, after, through } = rest;
    if (through - after <= directRange)
      return { through, find: (types, limit) => this.#counted(store.eventsOfTypesInRange(rest, types, limit)) };
    const range = { ...rest, through: Math.min(through, (await blocks.enteredBelow(contextId, after, through)) - 1) };
    return { through: range.through, find: (types, limit) => this.#counted(store.eventsOfTypesInBlocks(range, types, limit)) };
  }

  #counted<Answer>(answer: Answer): Answer {
    this.#statements += 1;
    return answer;
  }

  /** Takes the rows that fit; `isContinued` when the page holds events already, so that even the first row must fit. */
  async #decode(
    contextId: number,
    rows: readonly StoredEvent[],
    bounds: PageBounds,
    isContinued = false,
  ): Promise<{ events: Event[]; bytes: number; isCut: boolean }> {
    let bytes = 0;
    let count = 0;
    for (const { bodyBytes } of rows) {
      const fits = bytes + bodyBytes <= bounds.maxBytes || (count === 0 && !isContinued);
      if (!fits || count === bounds.limit) break;
      bytes += bodyBytes;
      count += 1;
    }
    return { events: await this.#events(contextId, rows.slice(0, count)), bytes, isCut: count < rows.length };
  }

  /** The events of rows, with those bodies that did not come with them. */
  async #events(contextId: number, rows: readonly StoredEvent[]): Promise<Event[]> {
    const { store, types } = this.#parts;
    const large = rows.flatMap(({ offset, bodyBytes }) => (bodyBytes > smallBodyBytes ? [offset] : []));
    const bodies = new Map(large.length === 0 ? [] : (await store.bodiesOf(contextId, large)).map((body) => [body.offset, body]));
    const decoder = new EventDecoder(await types.namesOf(rows.map(({ type }) => type)));
    return rows.map((row) => decoder.decode(row, bodies.get(row.offset)));
  }
}

const emptyAtHead = (after: number): Page => ({
  events: [],
  bytes: 0,
  scannedAfter: after,
  scannedThrough: after,
  isAtHead: true,
});

/** Whether what was read is of a context that was replaced under its name. */
function isClosed(error: unknown): boolean {
  return isCodedError(error) && error.code === "OFFSET_TRUNCATED" && error.data["firstOffset"] === closedFirstOffset;
}

/** Looks from the first event that is kept, which is `known` or, where the log was truncated since, what the look itself says. */
async function fromStart(known: number, page: (after: number) => Page | Promise<Page>): Promise<Page> {
  for (let first = known; ;) {
    try {
      return await page(first - 1);
    } catch (error) {
      const moved = isCodedError(error) && error.code === "OFFSET_TRUNCATED" ? Number(error.data["firstOffset"]) : 0;
      if (moved <= first || moved === closedFirstOffset) throw error;
      first = moved;
    }
  }
}
