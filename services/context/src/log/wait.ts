/**
 * Waiting for the first matching event, stored or told while someone waits. All waiters of a context stand in one line: a pump follows the log once for all of them and
 * offers each event to each waiter in the order in which they came, so two waiters for one event are answered in that order and an
 * earlier event always wins. A waiter first looks through the past it asked for; it stands in the line meanwhile, and what the pump
 * offers it is kept until the past is known to hold nothing earlier.
 */
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { CodedError, codedError, isCodedError } from "iterate/lib";
import type { Listening, LiveCommits } from "../publish/contract.js";
import { pause, realTimers, type Timers } from "../timers.js";
import { mergeEvents } from "../publish/merge-events.js";
import type { Heads } from "./confirm.js";
import type { ContextAddress } from "./contract.js";
import type { PayloadMatch } from "./payload-match.js";
import type { PageBounds, Reads } from "./page.js";

export interface WaitParts {
  readonly reader: Reads;
  readonly heads: Heads;
  readonly live: LiveCommits;
  /** Waiters of the process at most; one more is OVERLOADED. */
  readonly maxWaiters: number;
  readonly timers?: Timers;
}

export interface WaitRequest {
  readonly address: ContextAddress;
  readonly types: readonly string[];
  readonly payload: PayloadMatch | undefined;
  /** `undefined` is the head at the time of the call. */
  readonly after: number | undefined;
  readonly timeoutMs: number;
}

const scanBounds: PageBounds = { limit: 500, maxBytes: 1_048_576 };
const pumpBounds: PageBounds = { limit: 2_000, maxBytes: 4_194_304 };
/** Between two attempts of a pump whose database is away. */
const retryMs = 250;

export class Waits {
  readonly #parts: WaitParts;
  readonly #lines = new Map<string, Line>();
  #waiters = 0;

  constructor(parts: WaitParts) {
    this.#parts = parts;
  }

  get count(): number {
    return this.#waiters;
  }

  /** Calls that stand in a line: they will notice whatever is committed now. */
  get standing(): number {
    let standing = 0;
    for (const line of this.#lines.values()) standing += line.standing;
    return standing;
  }

  /**
   * The first event after `after` that matches, from the past if it is there.
   *
   * @throws CodedError WAIT_TIMEOUT (wait again); OVERLOADED; UNAVAILABLE when the database is away; the reason of `signal`.
   */
  async wait(request: WaitRequest, signal: AbortSignal): Promise<Event> {
    if (this.#waiters >= this.#parts.maxWaiters)
      throw new CodedError("OVERLOADED", `${this.#parts.maxWaiters} calls already wait for events here; retry later`, {
        retryAfterMs: 1_000,
      });
    this.#waiters += 1;
    const bound = new AbortController();
    const { timers = realTimers } = this.#parts;
    const cancelTimeout = timers.after(request.timeoutMs, () => bound.abort(timedOut(request)));
    const abandon = (): void => bound.abort(signal.reason);
    if (signal.aborted) abandon();
    else signal.addEventListener("abort", abandon, { once: true });
    const line = this.#enter(request.address);
    try {
      return await this.#waitIn(line, request, bound.signal);
    } finally {
      cancelTimeout();
      signal.removeEventListener("abort", abandon);
      this.#leave(request.address, line);
      this.#waiters -= 1;
    }
  }

  async #waitIn(line: Line, request: WaitRequest, signal: AbortSignal): Promise<Event> {
    const waiter = new Waiter(request);
    const aborted = new Promise<never>((_, reject) => {
      if (signal.aborted) reject(signal.reason as Error);
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    });
    aborted.catch(() => undefined);
    try {
      const head = await Promise.race([this.#parts.heads.confirm(request.address), aborted]);
      await Promise.race([line.opened, aborted]);
      const headOffset = head?.lastOffset ?? 0;
      waiter.after = request.after ?? headOffset;
      // No step between these two: what the pump has passed is scanned, what it has not passed is offered.
      const hasPast = waiter.after < Math.max(line.position, headOffset);
      line.add(waiter);
      if (hasPast) {
        const found = await Promise.race([this.#scan(request, waiter, signal), aborted]);
        // An ephemeral event that came meanwhile may lie before what was committed meanwhile.
        if (found !== undefined) return waiter.earlierOf(found);
      }
      waiter.scanned();
      return await Promise.race([waiter.answered, aborted]);
    } finally {
      line.delete(waiter);
    }
  }

  async #scan({ address, types }: WaitRequest, waiter: Waiter, signal: AbortSignal): Promise<Event | undefined> {
    for (let position = waiter.after; ;) {
      const page = await this.#parts.reader.read(address, position, types, scanBounds, signal);
      const found = page.events.find((event) => waiter.isMatch(event));
      if (found !== undefined || page.isAtHead) return found;
      position = page.scannedThrough;
    }
  }

  #enter(address: ContextAddress): Line {
    const key = `${address.owner}\0${address.path}`;
    let line = this.#lines.get(key);
    if (line === undefined) {
      const opening = new Line(address, this.#parts);
      this.#lines.set(key, opening);
      // Whoever comes after a failure begins anew.
      opening.opened.catch(() => this.#remove(address, opening));
      line = opening;
    }
    line.users += 1;
    return line;
  }

  #leave(address: ContextAddress, line: Line): void {
    line.users -= 1;
    if (line.users > 0) return;
    this.#remove(address, line);
    line.close();
  }

  #remove(address: ContextAddress, line: Line): void {
    const key = `${address.owner}\0${address.path}`;
    if (this.#lines.get(key) === line) this.#lines.delete(key);
  }
}

function timedOut({ types, timeoutMs, address }: WaitRequest): CodedError {
  return codedError(
    "WAIT_TIMEOUT",
    `no event of ${types.length === 1 ? types[0]! : `${types.length} types`} came to ${address.path} within ${timeoutMs} ms`,
    { timeoutMs },
  );
}

/** One call that waits. */
class Waiter {
  readonly #types: ReadonlySet<string>;
  readonly #payload: PayloadMatch | undefined;
  readonly answered: Promise<Event>;
  #answer!: (event: Event) => void;
  #fail!: (error: Error) => void;
  #offered: Event | undefined;
  #isScanning = true;
  after = 0;

  constructor({ types, payload }: WaitRequest) {
    this.#types = new Set(types);
    this.#payload = payload;
    this.answered = new Promise((answer, fail) => {
      this.#answer = answer;
      this.#fail = fail;
    });
    this.answered.catch(() => undefined);
  }

  isMatch({ offset, type, payload }: Event): boolean {
    return Number(offset) > this.after && this.#types.has(type) && (this.#payload === undefined || this.#payload.matches(payload));
  }

  /** Answers true when the waiter has what it came for. */
  offer(event: Event): boolean {
    if (this.#offered !== undefined || !this.isMatch(event)) return false;
    this.#offered = event;
    if (!this.#isScanning) this.#answer(event);
    return true;
  }

  earlierOf(found: Event): Event {
    return this.#offered !== undefined && this.#offered.offset < found.offset ? this.#offered : found;
  }

  /** The past holds no match: what was offered meanwhile is the first. */
  scanned(): void {
    this.#isScanning = false;
    if (this.#offered !== undefined) this.#answer(this.#offered);
  }

  fail(error: Error): void {
    this.#fail(error);
  }
}

/** The waiters of one context and the pump that serves them. */
class Line {
  readonly #address: ContextAddress;
  readonly #parts: WaitParts;
  readonly #listening: Listening;
  readonly #closing = new AbortController();
  readonly #waiters = new Set<Waiter>();
  /** Settles once `position` is known. */
  readonly opened: Promise<void>;
  /** Everything up to here was offered. */
  position = 0;
  users = 0;

  constructor(address: ContextAddress, parts: WaitParts) {
    this.#address = address;
    this.#parts = parts;
    this.#listening = parts.live.listen(address, "all");
    this.opened = this.#open();
  }

  get standing(): number {
    return this.#waiters.size;
  }

  add(waiter: Waiter): void {
    this.#waiters.add(waiter);
  }

  delete(waiter: Waiter): void {
    this.#waiters.delete(waiter);
  }

  close(): void {
    this.#closing.abort(closed);
    this.#listening.close();
  }

  async #open(): Promise<void> {
    this.position = (await this.#parts.heads.confirm(this.#address))?.lastOffset ?? 0;
    void this.#pump();
  }

  async #pump(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        await this.#listening.whenAbove(this.position, signal);
        await this.#step(signal);
      } catch (error) {
        if (signal.aborted) return;
        await this.#recover(error, signal);
      }
    }
  }

  async #step(signal: AbortSignal): Promise<void> {
    const live = this.#listening.take(this.position, pumpBounds.limit);
    if (live !== undefined) return this.#offer(live.events, live.through);
    const page = await this.#parts.reader.read(this.#address, this.position, [], pumpBounds, signal);
    const ephemerals = this.#listening.ephemeralsWithin(this.position, page);
    if (page.scannedThrough === this.position && ephemerals.length === 0) return this.#listening.doubt();
    this.#offer(mergeEvents(page.events, ephemerals), page.scannedThrough);
  }

  #offer(events: readonly Event[], through: number): void {
    for (const event of events) for (const waiter of this.#waiters) if (waiter.offer(event)) this.#waiters.delete(waiter);
    this.position = through;
  }

  /**
   * A passing failure is tried again for as long as someone waits; an event that cannot be read, or is gone before it was, ends those who
   * wait for it.
   */
  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    const passed = isCodedError(error) ? positionBehind(error) : undefined;
    if (passed !== undefined) {
      for (const waiter of this.#waiters) waiter.fail(error as Error);
      this.position = passed;
      return;
    }
    await pause(this.#parts.timers ?? realTimers, retryMs, signal);
  }
}

/** Where the log can be read on after `error`; `undefined` when it is not about a place. */
function positionBehind({ code, data }: CodedError): number | undefined {
  if (code === "EVENT_UNREADABLE") return Number(data["offset"]);
  return code === "OFFSET_TRUNCATED" ? Number(data["firstOffset"]) - 1 : undefined;
}

const closed = new Error("nobody waits any more");
