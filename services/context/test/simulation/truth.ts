/** What must hold of the log itself and of every answer about it, looked at where it happens. */
import { isDeepStrictEqual } from "node:util";
import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { storedControlEvent } from "../../src/core/control-event.js";
import { coreFromRows, coreVersion, foldCore, initialCore } from "../../src/core/fold.js";
import type { CoreState } from "../../src/core/contract.js";
import { Vocabulary } from "../../src/core/vocabulary.js";
import type { CommittedBatch, ContextAddress, ContextHead, EphemeralBatch, StorableEvent } from "../../src/log/contract.js";
import { nameOf } from "../../src/log/head-cache.js";
import type { Page } from "../../src/log/page.js";
import type { CommitRecord, ContextRecord, EventRecord, SimulatedLog } from "./simulated-log.js";
import type { VirtualTime } from "./virtual-time.js";

/** Where the truth is read, and where a run says what it found. */
interface Court {
  readonly log: SimulatedLog;
  readonly time: VirtualTime;
  tell(line: string): void;
  fail(problem: string): void;
  require(isTrue: boolean, problem: () => string): void;
}

/** What was ever seen of a context, whatever a restore took back. */
interface Ever {
  /** Offsets of stored events. */
  readonly stored: Set<number>;
  readonly ephemeral: Map<number, StorableEvent>;
  lastStored: number;
  /** Above it the first commit after a restore begins. */
  lostThrough: number;
}

type CommitListener = (address: ContextAddress, commit: CommitRecord) => void;

const vocabulary = new Vocabulary();

export class Truth {
  readonly #world: Court;
  readonly #ever = new Map<string, Ever>();
  readonly #listeners = new Set<CommitListener>();
  readonly #visibleSince = new WeakMap<CommitRecord, number>();

  constructor(world: Court) {
    this.#world = world;
  }

  /** Calls `listener` at each commit, until the answered function is called. */
  onCommit(listener: CommitListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Hears of each commit at the moment it is there for everyone. */
  committed({ address, commits }: ContextRecord, commit: CommitRecord): void {
    const { commitNo, firstOffset, lastOffset, reservedThrough, runnerEpoch, lastControl, events } = commit;
    const world = this.#world;
    const at = (): string => `${address.path}@${commitNo}`;
    world.tell(`commit ${at()} ${firstOffset}–${lastOffset} reserved ${reservedThrough} epoch ${runnerEpoch}`);
    this.#visibleSince.set(commit, world.time.nowMs());
    const before = commits.get(commitNo - 1);
    const ever = this.#of(address);
    world.require(commitNo === 1 || before !== undefined, () => `${at()} follows no commit`);
    world.require(events.length === 0 || events[0]!.offset === firstOffset, () => `${at()} does not begin at its first offset`);
    world.require(
      lastOffset === (events.at(-1)?.offset ?? before?.lastOffset ?? 0),
      () => `${at()} does not end at its last offset`,
    );
    world.require(
      reservedThrough >= Math.max(lastOffset, before?.reservedThrough ?? 0),
      () => `${at()} gives reserved offsets back`,
    );
    world.require(runnerEpoch >= (before?.runnerEpoch ?? 0), () => `${at()} goes back to epoch ${runnerEpoch}`);
    world.require(
      lastControl === (events.some(({ isControl }) => isControl) ? commitNo : (before?.lastControl ?? 0)),
      () => `${at()} names commit ${lastControl} as its last control`,
    );
    for (const { offset } of events) {
      world.require(offset > ever.lastStored, () => `${at()} writes offset ${offset} after ${ever.lastStored}`);
      world.require(!ever.ephemeral.has(offset), () => `${at()} writes offset ${offset}, which an ephemeral event has`);
      world.require(
        offset > ever.lostThrough,
        () => `${at()} writes offset ${offset}, which may have been seen before the restore`,
      );
      ever.stored.add(offset);
      ever.lastStored = offset;
    }
    for (const listener of [...this.#listeners]) listener(address, commit);
  }

  /** Hears what a process believes it has committed, before it answers. */
  told({ commits }: CommittedBatch): void {
    for (const { head, commitNo, firstOffset, lastOffset } of commits) {
      const commit = this.#world.log.byAddress(head.address)?.commits.get(commitNo);
      this.#world.require(
        commit?.firstOffset === firstOffset && commit.lastOffset === lastOffset,
        () => `${head.address.path}@${commitNo} is told of before it is committed`,
      );
    }
  }

  /** Hears of ephemeral events when they get their offsets. */
  toldEphemerals({ head: { address }, events }: EphemeralBatch): void {
    const ever = this.#of(address);
    for (const { event, offset } of events) {
      const place = `the ephemeral event ${offset} of ${address.path}`;
      this.#world.require(!ever.stored.has(offset), () => `${place} has the offset of a stored one`);
      this.#world.require(!ever.ephemeral.has(offset), () => `${place} has the offset of another one`);
      this.#world.require(offset > ever.lostThrough, () => `${place} may have been seen before the restore`);
      ever.ephemeral.set(offset, event);
    }
  }

  /** The ephemeral event that was told with an offset. */
  ephemeralAt(address: ContextAddress, offset: number): StorableEvent | undefined {
    return this.#of(address).ephemeral.get(offset);
  }

  /** Called when a restore is about to take back what is after `kept`. */
  restoring(): void {
    for (const { address, last } of this.#world.log.contexts) {
      const ever = this.#of(address);
      ever.lostThrough = Math.max(ever.lostThrough, ever.lastStored, last?.reservedThrough ?? 0, ...ever.ephemeral.keys());
    }
  }

  /** Called after it: a context that was lost whole begins anew, which nothing in the database can tell. */
  restored(): void {
    const { log } = this.#world;
    for (const [name, ever] of this.#ever) {
      const [owner, path] = name.split("\0") as [string, string];
      if ((log.byAddress({ owner, path })?.last ?? null) !== null) continue;
      this.#ever.delete(name);
      this.#world.tell(`${path} is lost whole, with ${ever.stored.size} events`);
    }
  }

  /** Last offset of what everyone can see now. */
  headOf(address: ContextAddress): number {
    return this.#world.log.byAddress(address)?.last?.lastOffset ?? 0;
  }

  commitNoOf(address: ContextAddress): number {
    return this.#world.log.byAddress(address)?.last?.commitNo ?? 0;
  }

  /** The commit that holds the stored event at an offset. */
  commitHolding(address: ContextAddress, offset: number): CommitRecord | undefined {
    for (const commit of this.#world.log.byAddress(address)?.commits.values() ?? [])
      if (commit.firstOffset <= offset && commit.lastOffset >= offset && commit.events.some((event) => event.offset === offset))
        return commit;
    return undefined;
  }

  /** When the stored event at an offset came to be seen. */
  visibleSince(address: ContextAddress, offset: number): number | undefined {
    const commit = this.commitHolding(address, offset);
    return commit === undefined ? undefined : this.#visibleSince.get(commit);
  }

  /** The events of a context in a range, of the types or of all. */
  eventsIn(address: ContextAddress, after: number, through: number, types: readonly string[] = []): EventRecord[] {
    const context = this.#world.log.byAddress(address);
    if (context === undefined) return [];
    const numbers = types.map((name) => this.#world.log.types.get(name));
    const events: EventRecord[] = [];
    for (let at = context.indexAfter(after); at < context.events.length && context.events[at]!.offset <= through; at += 1) {
      const event = context.events[at]!;
      if (types.length === 0 || numbers.includes(event.type)) events.push(event);
    }
    return events;
  }

  typeName(type: number): string | undefined {
    for (const [name, number] of this.#world.log.types) if (number === type) return name;
    return undefined;
  }

  /** A page holds every stored event of what it says it looked through, no other one, and ephemeral ones that were told. */
  checkPage(who: string, address: ContextAddress, after: number, types: readonly string[], page: Page): void {
    const stored = page.events.filter(({ ephemeral }) => !ephemeral);
    const expected = this.eventsIn(address, after, page.scannedThrough, types);
    const isRight = stored.length === expected.length && stored.every((event, at) => this.#isSame(event, expected[at]!));
    this.#world.require(
      isRight,
      () =>
        `${who} was shown ${offsetsOf(stored)} of ${address.path} after ${after} through ${page.scannedThrough}; there are ${offsetsOf(expected)}`,
    );
    let last = after;
    for (const event of page.events) {
      this.#world.require(event.offset > last, () => `${who} was shown ${event.offset} of ${address.path} after ${last}`);
      last = Number(event.offset);
      if (event.ephemeral) this.checkEvent(who, address, event);
      this.#world.require(
        types.length === 0 || types.includes(event.type),
        () => `${who} was shown an event of type ${event.type}`,
      );
    }
  }

  checkEvent(who: string, address: ContextAddress, event: Event): void {
    const offset = Number(event.offset);
    const told = this.ephemeralAt(address, offset);
    const [stored] = this.eventsIn(address, offset - 1, offset);
    const isThere = event.ephemeral
      ? told?.type === event.type && told.payload?.equals(event.payload!) === true
      : stored !== undefined && this.#isSame(event, stored);
    this.#world.require(isThere, () => `${who} was shown an event ${offset} of ${address.path} that is not there`);
  }

  /** What a process answers of a context is the fold of its log. */
  checkHead(who: string, head: ContextHead): void {
    const context = this.#world.log.byAddress(head.address);
    const commit = context?.commits.get(head.commitNo);
    const place = `${who}: ${head.address.path}@${head.commitNo}`;
    if (commit === undefined) return this.#world.fail(`${place} is no commit`);
    this.#world.require(
      commit.lastOffset === head.lastOffset &&
        commit.reservedThrough === head.reservedThrough &&
        commit.lastControl === head.lastControl,
      () => `${place} ends at ${head.lastOffset}, not at ${commit.lastOffset}`,
    );
    const folded = this.#fold(context!, initialCore, 0, commit.lastOffset);
    this.#world.require(
      isDeepStrictEqual(plain(head.core), plain(folded)),
      () => `${place} has a state that is not the fold of its log`,
    );
  }

  /** The stored rows of every context are folds of its log. */
  checkCoreRows(): void {
    for (const context of this.#world.log.contexts) {
      const { core, asOf } = coreFromRows(context.coreRows(coreVersion));
      const folded = this.#fold(context, core, asOf, Infinity);
      const all = this.#fold(context, initialCore, 0, Infinity);
      this.#world.require(
        isDeepStrictEqual(plain(folded), plain(all)),
        () => `the core rows of ${context.address.path} are not the fold of its log`,
      );
    }
  }

  /** Every stored event has a type with a name. */
  checkTypes(): void {
    for (const { address, events } of this.#world.log.contexts) {
      for (const { offset, type } of events)
        this.#world.require(this.typeName(type) !== undefined, () => `${address.path} ${offset} has a type without a name`);
    }
  }

  #fold({ events }: ContextRecord, from: CoreState, after: number, through: number): CoreState {
    let core = from;
    for (const { offset, type, formatVersion, payload, isControl } of events) {
      if (!isControl || offset <= after || offset > through) continue;
      const event = storedControlEvent(vocabulary, { offset, type: this.typeName(type) ?? "", formatVersion, payload });
      if (event !== undefined) core = foldCore(core, event);
    }
    return core;
  }

  #isSame({ offset, type, payload, metadata, idempotencyKey, createdAtUs }: Event, stored: EventRecord): boolean {
    return (
      Number(offset) === stored.offset &&
      type === this.typeName(stored.type) &&
      textOf(payload) === stored.payload &&
      textOf(metadata) === stored.metadata &&
      idempotencyKey === (stored.key ?? "") &&
      Number(createdAtUs) === stored.createdAtUs
    );
  }

  #of(address: ContextAddress): Ever {
    const name = nameOf(address);
    let ever = this.#ever.get(name);
    if (ever === undefined) {
      ever = { stored: new Set(), ephemeral: new Map(), lastStored: 0, lostThrough: 0 };
      this.#ever.set(name, ever);
    }
    return ever;
  }
}

function textOf(bytes: Uint8Array | undefined): string | null {
  return bytes === undefined ? null : Buffer.from(bytes).toString();
}

function plain(core: CoreState): unknown {
  return JSON.parse(JSON.stringify(core));
}

function offsetsOf(events: readonly { readonly offset: bigint | number }[]): string {
  return `[${events.map(({ offset }) => String(offset)).join(" ")}]`;
}
