/**
 * The live side of one process: what is heard of commits, from this process and from the broker, for the contexts someone listens
 * to. Hints may be lost, so the heads of all of them are confirmed in one query every 500 ms, always, and after every reconnect;
 * without a broker that alone carries the live reads. Memory is bounded: recent events are shared by the listeners of a context,
 * and a listener that is slow reads the log.
 */
import { pause, realTimers, type Timers } from "../timers.js";
import type { ContextAddress, ContextHead } from "../log/contract.js";
import type { CommitHint, EphemeralHint, Heard, KnownHead, Listening, LiveCommits, LiveEvents } from "./contract.js";
import { mergeEvents } from "./merge-events.js";
import { Watch } from "./watch.js";

/** Longest time a commit goes unnoticed when every hint of it was lost, plus one query. */
export const confirmEveryMs = 500;
/**
 * How long what was told has to arrive before a confirmation that knows more is believed, where somebody listens to ephemeral events:
 * those told before a commit are lost once it is known.
 */
const hintGraceMs = 25;
/** Events held for all listened-to contexts of a process. */
const maxHeldBytes = 33_554_432;

export interface HubParts {
  /** The head of each context as of after the call, `undefined` for one not yet born; in one batched query. */
  readonly confirm: (address: ContextAddress) => Promise<ContextHead | undefined>;
  /** Told when the first listener of a context comes and when the last one leaves. */
  readonly onListened?: (address: ContextAddress, isListened: boolean) => void;
  /** The same for listeners of ephemeral events. */
  readonly onEphemeralsListened?: (address: ContextAddress, isListened: boolean) => void;
  readonly onConfirmed?: () => void;
  readonly onConfirmFailed?: (error: unknown) => void;
  readonly timers?: Timers;
}

interface Listened {
  readonly address: ContextAddress;
  readonly watch: Watch;
  listeners: number;
  /** Of them, those who read events. */
  readers: number;
  /** Of them, those of ephemeral events. */
  ephemeralListeners: number;
  /** Under way, and whether it is to be done once more. */
  confirming: Promise<void> | undefined;
  isToConfirm: boolean;
}

const unborn: KnownHead = { commitNo: 0, lastOffset: 0, reservedThrough: 0 };

export class LiveHub implements LiveCommits {
  readonly #parts: HubParts;
  readonly #listened = new Map<string, Listened>();
  #heldBytes = 0;
  #droppedEphemerals = 0;
  #cancelTick: (() => void) | undefined;

  constructor(parts: HubParts) {
    this.#parts = parts;
  }

  /** Contexts listened to, listeners, and bytes of events held: all 0 once everyone has left. */
  get counts(): { contexts: number; listeners: number; heldBytes: number } {
    let listeners = 0;
    for (const listened of this.#listened.values()) listeners += listened.listeners;
    return { contexts: this.#listened.size, listeners, heldBytes: this.#heldBytes };
  }

  /** Ephemeral events that were told and given to nobody: too late, too early, out of order, or too many. */
  get droppedEphemerals(): number {
    return this.#droppedEphemerals;
  }

  /** Begins the confirmations of every 500 ms. A database that is silent holds up those of its own contexts alone. */
  start(): void {
    const { timers = realTimers } = this.#parts;
    const tick = (): void => {
      this.#cancelTick = timers.after(confirmEveryMs, tick);
      void this.#confirmResting();
    };
    this.#cancelTick ??= timers.after(confirmEveryMs, tick);
  }

  stop(): void {
    this.#cancelTick?.();
    this.#cancelTick = undefined;
  }

  listen(address: ContextAddress, heard: Heard = "stored"): Listening {
    const key = keyOf(address);
    let listened = this.#listened.get(key);
    if (listened === undefined) {
      listened = {
        address,
        watch: new Watch(),
        listeners: 0,
        readers: 0,
        ephemeralListeners: 0,
        confirming: undefined,
        isToConfirm: false,
      };
      this.#listened.set(key, listened);
      this.#parts.onListened?.(address, true);
      void this.#confirm(listened);
    }
    listened.listeners += 1;
    if (heard !== "commits") listened.readers += 1;
    if (heard === "all") {
      listened.ephemeralListeners += 1;
      if (listened.ephemeralListeners === 1) this.#parts.onEphemeralsListened?.(address, true);
    }
    return this.#listening(listened, key, heard);
  }

  /** Takes a hint of a commit; of contexts nobody listens to it is dropped. */
  hint(commit: CommitHint): void {
    const listened = this.#listened.get(keyOf(commit.address));
    if (listened === undefined) return;
    const held = listened.readers > 0 ? commit : { ...commit, events: undefined, bytes: 0 };
    const mustConfirm = this.#measured(listened, () => listened.watch.hint(held));
    if (mustConfirm) void this.#confirm(listened);
  }

  /** Takes ephemeral events that were told; of contexts where nobody listens to them they are dropped. */
  tell(hint: EphemeralHint): void {
    const listened = this.#listened.get(keyOf(hint.address));
    if (listened === undefined || listened.ephemeralListeners === 0) return;
    this.#measured(listened, () => listened.watch.tell(hint));
  }

  /** Whether somebody listens to the ephemeral events of a context. */
  isListenedToAll(address: ContextAddress): boolean {
    return (this.#listened.get(keyOf(address))?.ephemeralListeners ?? 0) > 0;
  }

  /** Asks for the truth of one context, if somebody listens to it. */
  doubt(address: ContextAddress): void {
    const listened = this.#listened.get(keyOf(address));
    if (listened !== undefined) void this.#confirm(listened);
  }

  isListenedTo(address: ContextAddress): boolean {
    return this.#listened.has(keyOf(address));
  }

  /** Whether somebody who listens to a context reads its events. */
  isRead(address: ContextAddress): boolean {
    return (this.#listened.get(keyOf(address))?.readers ?? 0) > 0;
  }

  /** Asks for the truth of every listened-to context, in one query as far as they were not being asked for already. */
  async confirmAll(): Promise<void> {
    await Promise.all([...this.#listened.values()].map((listened) => this.#confirm(listened)));
    this.#parts.onConfirmed?.();
  }

  async #confirmResting(): Promise<void> {
    const resting = [...this.#listened.values()].filter(({ confirming }) => confirming === undefined);
    await Promise.all(resting.map((listened) => this.#confirm(listened)));
    this.#parts.onConfirmed?.();
  }

  /** One at a time for each context; who asks meanwhile has it done once more. Never rejects. */
  #confirm(listened: Listened): Promise<void> {
    if (listened.confirming === undefined)
      listened.confirming = this.#confirmUntilCurrent(listened).finally(() => (listened.confirming = undefined));
    else listened.isToConfirm = true;
    return listened.confirming;
  }

  async #confirmUntilCurrent(listened: Listened): Promise<void> {
    const { watch } = listened;
    try {
      do {
        listened.isToConfirm = false;
        const askedAt = watch.ask();
        const head = await this.#parts.confirm(listened.address);
        const isAhead = watch.head !== undefined && (head?.commitNo ?? 0) > watch.head.commitNo;
        if (isAhead && listened.ephemeralListeners > 0) await pause(this.#parts.timers ?? realTimers, hintGraceMs);
        const isBehind = this.#measured(listened, () => watch.confirm(head ?? unborn, askedAt));
        listened.isToConfirm ||= isBehind;
      } while (listened.isToConfirm && listened.listeners > 0);
    } catch (error) {
      // The next round asks again.
      this.#parts.onConfirmFailed?.(error);
    }
  }

  #listening(listened: Listened, key: string, heard: Heard): Listening {
    let isOpen = true;
    const { watch } = listened;
    // What was told before is the past, which only the log keeps.
    let seen = heard === "all" ? watch.ephemerals.newest : undefined;
    const ephemeralsWithin: Listening["ephemeralsWithin"] = (position, reach) => {
      if (seen === undefined) return [];
      const events = watch.ephemerals.within(Math.max(seen, position), reach);
      const isAll = reach.isAtHead && reach.scannedThrough >= (watch.head?.lastOffset ?? Infinity);
      seen = isAll ? watch.ephemerals.newest : Number(events.at(-1)?.offset ?? seen);
      return events;
    };
    const take = (position: number, maxEvents: number): LiveEvents | undefined => {
      const lastOffset = watch.head?.lastOffset ?? Infinity;
      const stored = position >= lastOffset ? { events: [], through: position } : watch.take(position, maxEvents);
      if (stored === undefined) return undefined;
      const ephemerals = ephemeralsWithin(position, {
        scannedThrough: stored.through,
        isAtHead: stored.through >= lastOffset,
      });
      if (stored.through === position && ephemerals.length === 0) return undefined;
      return { events: mergeEvents(stored.events, ephemerals), through: stored.through };
    };
    return {
      get head() {
        return watch.head;
      },
      take,
      ephemeralsWithin,
      whenAbove: (position, signal) => watch.whenAbove(position, seen, signal),
      doubt: () => this.#confirm(listened),
      close: () => {
        if (!isOpen) return;
        isOpen = false;
        listened.listeners -= 1;
        if (heard === "all") {
          listened.ephemeralListeners -= 1;
          if (listened.ephemeralListeners === 0) {
            this.#measured(listened, () => watch.ephemerals.forget());
            this.#parts.onEphemeralsListened?.(listened.address, false);
          }
        }
        if (heard !== "commits") listened.readers -= 1;
        if (listened.readers === 0) this.#letGo(listened);
        if (listened.listeners > 0) return;
        this.#listened.delete(key);
        this.#parts.onListened?.(listened.address, false);
      },
    };
  }

  /** Does something to a watch and keeps the books of what it holds; a process that holds too much lets this one go. */
  #measured<Result>(listened: Listened, work: () => Result): Result {
    const { watch } = listened;
    const bytes = watch.bytes;
    const dropped = watch.ephemerals.dropped;
    const result = work();
    this.#heldBytes += watch.bytes - bytes;
    this.#droppedEphemerals += watch.ephemerals.dropped - dropped;
    if (this.#heldBytes > maxHeldBytes) this.#letGo(listened);
    return result;
  }

  #letGo({ watch }: Listened): void {
    this.#heldBytes -= watch.bytes;
    watch.forget();
  }
}

function keyOf({ owner, path }: ContextAddress): string {
  return `${owner}\0${path}`;
}
