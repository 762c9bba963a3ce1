/**
 * One reader's stream of one context: the past, read from the log page by page with the next one fetched ahead, then what happens.
 * It is pulled: nothing is produced that the reader has not asked for, so a slow reader holds two pages at most, and when it is
 * further behind than what is held in memory it simply reads the log again.
 */
import { CodedError } from "iterate/lib";
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import type { Heard, LiveCommits } from "../publish/contract.js";
import { mergeEvents } from "../publish/merge-events.js";
import type { Heads } from "./confirm.js";
import type { ContextAddress } from "./contract.js";
import { EncodedPage } from "./encoded-page.js";
import type { Page, PageBounds, Reads } from "./page.js";

/** One page is one message; large enough to amortise it, small enough to keep both ends lean. */
const maxPage: PageBounds = { limit: 2_000, maxBytes: 524_288, maxScan: 262_144, isAnyForm: true };
const firstLimit = 250;
/** A position that moves without a matching event is told after so many offsets or so long. */
const silentOffsets = 1_000;
const silentMs = 1_000;

export interface StreamParts {
  readonly reader: Reads;
  readonly heads: Heads;
  readonly live: LiveCommits;
  /** Monotonic milliseconds. */
  readonly nowMs: () => number;
}

export interface StreamRequest {
  readonly address: ContextAddress;
  /** `undefined` is the head at the time of the call. */
  readonly after: number | undefined;
  /** Names wanted; none means all. */
  readonly types: readonly string[];
  /** `all`: ephemeral events that are told from now on are among the others, in offset order. */
  readonly heard?: Heard;
}

/** The streams of a process: as many as it has memory for. */
export class Streams {
  readonly #parts: StreamParts;
  readonly #maxOpen: number;
  #open = 0;

  constructor(parts: StreamParts, maxOpen: number) {
    this.#parts = parts;
    this.#maxOpen = maxOpen;
  }

  get open(): number {
    return this.#open;
  }

  /** As `streamEvents`; throws OVERLOADED (retryable) when too many are open. */
  async *follow(request: StreamRequest, signal: AbortSignal): AsyncGenerator<Page, void> {
    if (this.#open >= this.#maxOpen)
      throw new CodedError("OVERLOADED", `${this.#maxOpen} streams are open here already; retry later`, { retryAfterMs: 1_000 });
    this.#open += 1;
    try {
      yield* streamEvents(this.#parts, request, signal);
    } finally {
      this.#open -= 1;
    }
  }
}

/**
 * Steps without gap or reorder, for ever: the first one at once, even if it is empty. Ends by throwing: the reason of `signal`;
 * UNAVAILABLE when the database is away (resume after the last `scannedThrough`); OFFSET_TRUNCATED when events it had not read are gone;
 * EVENT_UNREADABLE.
 */
export async function* streamEvents(
  parts: StreamParts,
  { address, after, types, heard = "stored" }: StreamRequest,
  signal: AbortSignal,
): AsyncGenerator<Page, never> {
  // Before anything is read: what is committed from here on is either read or noticed.
  const listening = parts.live.listen(address, heard);
  const wanted = types.length === 0 ? undefined : new Set(types);
  const report = new Report(parts.nowMs);
  let ahead: Promise<Page> | undefined;
  // No more events than will fit by their bytes: what is read and does not fit is read again.
  let limit = firstLimit;
  const read = (after: number): Promise<Page> => parts.reader.read(address, after, types, { ...maxPage, limit }, signal);
  try {
    let position = after ?? (await parts.heads.confirm(address))?.lastOffset ?? 0;
    for (;;) {
      signal.throwIfAborted();
      const live = ahead === undefined ? listening.take(position, maxPage.limit) : undefined;
      let page: Page;
      if (live !== undefined) {
        page = {
          events: matching(live.events, wanted),
          bytes: 0,
          scannedAfter: position,
          scannedThrough: live.through,
          isAtHead: live.through >= (listening.head?.lastOffset ?? 0),
        };
      } else {
        const stored = await (ahead ?? read(position));
        page = withEphemerals(stored, matching(listening.ephemeralsWithin(position, stored), wanted));
        if (page.bytes > 0)
          limit = Math.max(16, Math.min(maxPage.limit, Math.ceil((maxPage.maxBytes * countOf(page)) / page.bytes)));
        ahead = page.isAtHead ? undefined : read(page.scannedThrough);
        // It is awaited in the next step, unless the reader leaves before.
        ahead?.catch(() => undefined);
        if (page.scannedThrough === position && (listening.head?.lastOffset ?? 0) > position) await listening.doubt();
      }
      position = page.scannedThrough;
      if (report.isDue(page)) yield page;
      if (page.isAtHead) await listening.whenAbove(position, signal);
    }
  } finally {
    listening.close();
  }
}

function withEphemerals(page: Page, ephemerals: readonly Event[]): Page {
  return ephemerals.length === 0 ? page : { ...page, events: mergeEvents(page.events, ephemerals) };
}

function matching(events: readonly Event[], wanted: ReadonlySet<string> | undefined): readonly Event[] {
  return wanted === undefined ? events : events.filter(({ type }) => wanted.has(type));
}

/** Events of a page, which need not be looked at for that. */
function countOf(page: Page): number {
  return page instanceof EncodedPage ? page.count : page.events.length;
}

/** Which steps are worth a message. */
class Report {
  readonly #nowMs: () => number;
  #through = -1;
  #atMs = 0;
  #isAtHead = false;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  isDue(page: Page): boolean {
    const { scannedThrough, isAtHead } = page;
    const now = this.#nowMs();
    const hasNews = countOf(page) > 0 || this.#through < 0 || (isAtHead && !this.#isAtHead);
    const isLong =
      scannedThrough - this.#through >= silentOffsets || (scannedThrough > this.#through && now - this.#atMs >= silentMs);
    if (!hasNews && !isLong) return false;
    this.#through = scannedThrough;
    this.#atMs = now;
    this.#isAtHead = isAtHead;
    return true;
  }
}
