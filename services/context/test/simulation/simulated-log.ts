/**
 * The data of a simulated shard with the rules Postgres gives it: transactions with ids that are given in one order and commit in
 * another, rows that are seen once they are committed, and a lock on a context from the commit row that is being inserted to the end
 * of its transaction. Without time: whoever runs statements decides when.
 *
 * Every change is an entry of a journal, and the state is what replaying it makes: a restore replays a part of it.
 */
import { AlreadyStored } from "../../src/log/already-stored.js";
import type { ConcernRow } from "../../src/core/fold.js";
import type { ContextAddress } from "../../src/log/contract.js";
import { nameOf } from "../../src/log/head-cache.js";
import type { CommitAnswer, CommitGroup, CommitToWrite, TakenKey } from "../../src/log/log-store.js";
import { commitTraceparent } from "../../src/log/plan.js";
import type { DueChange, DueTime } from "../../src/schedules/contract.js";

export interface EventRecord {
  readonly offset: number;
  readonly type: number;
  readonly formatVersion: number;
  readonly isControl: boolean;
  readonly appendId: string | null;
  readonly key: string | null;
  readonly digest: Buffer | null;
  readonly createdAtUs: number;
  readonly source: string;
  readonly traceparent: string | null;
  readonly payload: string | null;
  readonly metadata: string | null;
  readonly bodyBytes: number;
}

export interface CommitRecord {
  readonly contextId: number;
  readonly commitNo: number;
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly reservedThrough: number;
  readonly lastControl: number;
  readonly runnerEpoch: number;
  readonly generation: number;
  readonly xid: bigint;
  readonly traceparent: string | null;
  readonly atUs: number;
  readonly events: readonly EventRecord[];
  readonly core: readonly ConcernRow[];
  readonly reducerVersion: number;
  readonly due: readonly DueChange[];
}

/** A due row; times are microseconds, Infinity for one that is held. */
export interface DueRecord {
  readonly contextId: number;
  readonly key: string;
  readonly scheduledAtOffset: number;
  dueUs: number;
  claimedUntilUs: number;
}

type Entry =
  | { readonly kind: "context"; readonly address: ContextAddress; readonly contextId: number; readonly createdAtUs: number }
  | { readonly kind: "type"; readonly name: string; readonly type: number }
  | { readonly kind: "commit"; readonly commit: CommitRecord };

/** One context as committed. */
export class ContextRecord {
  readonly address: ContextAddress;
  readonly contextId: number;
  readonly createdAtUs: number;
  readonly commits = new Map<number, CommitRecord>();
  last: CommitRecord | null = null;
  /** In offset order. */
  readonly events: EventRecord[] = [];
  readonly keys = new Map<string, EventRecord>();
  readonly appends = new Map<string, EventRecord>();
  readonly #core = new Map<number, Map<string, ConcernRow>>();
  typeBlockMark = 0;

  constructor(address: ContextAddress, contextId: number, createdAtUs: number) {
    this.address = address;
    this.contextId = contextId;
    this.createdAtUs = createdAtUs;
  }

  coreRows(reducerVersion: number): ConcernRow[] {
    return [...(this.#core.get(reducerVersion)?.values() ?? [])];
  }

  /** Index of the first event after `offset`. */
  indexAfter(offset: number): number {
    let low = 0;
    let high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events[middle]!.offset > offset) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  add(commit: CommitRecord): void {
    this.commits.set(commit.commitNo, commit);
    if (this.last === null || commit.commitNo > this.last.commitNo) this.last = commit;
    for (const event of commit.events) {
      this.events.splice(this.indexAfter(event.offset), 0, event);
      if (event.key !== null) this.keys.set(event.key, event);
      if (event.appendId !== null) this.appends.set(event.appendId, event);
    }
    let core = this.#core.get(commit.reducerVersion);
    if (core === undefined) this.#core.set(commit.reducerVersion, (core = new Map<string, ConcernRow>()));
    for (const row of commit.core) core.set(row.concern, row);
  }
}

/** A transaction of the database: what it wrote is seen by others once it is committed. */
export class Transaction {
  /** Given at its first write. */
  xid: bigint | null = null;
  readonly atUs: number;
  isOver = false;
  readonly entries: Entry[] = [];
  readonly locked = new Set<string>();
  claim: { readonly contextId: number; readonly commitNo: number } | null = null;

  constructor(atUs: number) {
    this.atUs = atUs;
  }

  /** The type numbers it added. */
  get types(): Map<string, number> {
    return new Map(this.entries.flatMap((entry) => (entry.kind === "type" ? [[entry.name, entry.type]] : [])));
  }
}

interface Lock {
  holder: Transaction;
  readonly waiting: { readonly transaction: Transaction; readonly take: () => void }[];
}

export class SimulatedLog {
  generation = 1;
  readonly #nowUs: () => number;
  readonly #onCommit: (context: ContextRecord, commit: CommitRecord) => void;
  #journal: Entry[] = [];
  #contexts = new Map<number, ContextRecord>();
  #byName = new Map<string, ContextRecord>();
  #counters = new Map<number, number>();
  #types = new Map<string, number>();
  #feed: CommitRecord[] = [];
  #lastType = 0;
  #nextXid = 100n;
  readonly #open = new Set<Transaction>();
  readonly #locks = new Map<string, Lock>();

  constructor(nowUs: () => number, onCommit: (context: ContextRecord, commit: CommitRecord) => void = () => undefined) {
    this.#nowUs = nowUs;
    this.#onCommit = onCommit;
  }

  get contexts(): Iterable<ContextRecord> {
    return this.#contexts.values();
  }

  get types(): ReadonlyMap<string, number> {
    return this.#types;
  }

  /** By `dueName`. */
  readonly due = new Map<string, DueRecord>();

  /** Entries so far: what a restore can name. */
  get length(): number {
    return this.#journal.length;
  }

  /** Statements that wait for a lock. */
  get blocked(): number {
    let blocked = 0;
    for (const { waiting } of this.#locks.values()) blocked += waiting.length;
    return blocked;
  }

  byId(contextId: number): ContextRecord | undefined {
    return this.#contexts.get(contextId);
  }

  byAddress(address: ContextAddress): ContextRecord | undefined {
    return this.#byName.get(nameOf(address));
  }

  /** By the clock of the database. */
  get nowUs(): number {
    return this.#nowUs();
  }

  begin(): Transaction {
    const transaction = new Transaction(this.#nowUs());
    this.#open.add(transaction);
    return transaction;
  }

  /** What it wrote is there for everyone. */
  commit(transaction: Transaction): void {
    for (const entry of transaction.entries) this.#apply(entry, true);
    this.#end(transaction);
  }

  /** Nothing of it was ever there. */
  abort(transaction: Transaction): void {
    this.#end(transaction);
  }

  /** Takes the right to add to `name`, once whoever has it is over. */
  lock(transaction: Transaction, name: string): Promise<void> | undefined {
    if (transaction.locked.has(name)) return undefined;
    const lock = this.#locks.get(name);
    if (lock === undefined) {
      this.#locks.set(name, { holder: transaction, waiting: [] });
      transaction.locked.add(name);
      return undefined;
    }
    return new Promise((take) => void lock.waiting.push({ transaction, take }));
  }

  unlock(transaction: Transaction, name: string): void {
    transaction.locked.delete(name);
    const lock = this.#locks.get(name);
    if (lock?.holder !== transaction) return;
    const next = lock.waiting.shift();
    if (next === undefined) {
      this.#locks.delete(name);
      return;
    }
    lock.holder = next.transaction;
    next.transaction.locked.add(name);
    next.take();
  }

  /** Gives the rows to contexts that have none; at once, and whatever else is under way. */
  makeContext(address: ContextAddress, partition: number): ContextRecord | undefined {
    const number = (this.#counters.get(partition) ?? 0) + 1;
    this.#counters.set(partition, number);
    if (this.byAddress(address) !== undefined) return undefined;
    const contextId = partition * 2 ** 40 + number;
    this.#apply({ kind: "context", address, contextId, createdAtUs: this.#nowUs() }, true);
    return this.byId(contextId);
  }

  addType(transaction: Transaction, name: string): void {
    if (!this.#types.has(name)) transaction.entries.push({ kind: "type", name, type: (this.#lastType += 1) });
  }

  /** The commits of a group that may land, if their numbers are free. */
  admitted({ generation, commits }: CommitGroup, taken: CommitAnswer["taken"]): CommitToWrite[] {
    if (generation !== this.generation) return [];
    const isHeld = ({ guards }: CommitToWrite): boolean =>
      guards.every(({ contextId, lastControl }) => this.byId(contextId)?.last?.lastControl === lastControl);
    return commits.filter((commit) => !taken.has(commit.contextId) && isHeld(commit));
  }

  /** The keys to check that are taken as far as is committed now. */
  taken({ commits }: CommitGroup): Map<number, TakenKey[]> {
    const taken = new Map<number, TakenKey[]>();
    for (const { contextId, commit } of commits) {
      const found = commit.keysToCheck.flatMap((key) => this.takenKey(contextId, key) ?? []);
      if (found.length > 0) taken.set(contextId, found);
    }
    return taken;
  }

  takenKey(contextId: number, key: string): TakenKey | undefined {
    const event = this.byId(contextId)?.keys.get(key);
    if (event === undefined) return undefined;
    return { contextId, key, offset: event.offset, createdAtUs: event.createdAtUs, digest: event.digest!, source: event.source };
  }

  /** Gives the transaction its id, if it has none. */
  identify(transaction: Transaction): bigint {
    transaction.xid ??= this.#nextXid++;
    return transaction.xid;
  }

  /** Writes the commits whose number is free; the transaction has their locks. @throws AlreadyStored. */
  write(
    transaction: Transaction,
    group: CommitGroup,
    commits: readonly CommitToWrite[],
    taken: CommitAnswer["taken"],
  ): CommitAnswer {
    const landed = new Set<number>();
    for (const one of commits) {
      const context = this.byId(one.contextId);
      if (context === undefined || context.commits.has(one.commit.commitNo)) continue;
      const isThere = one.commit.rows.some(
        ({ event, appendId, offset }) =>
          (appendId !== null && context.appends.has(appendId)) ||
          (event.idempotencyKey !== null && context.keys.has(event.idempotencyKey)) ||
          context.events[context.indexAfter(offset - 1)]?.offset === offset,
      );
      if (isThere) throw new AlreadyStored();
      transaction.entries.push({ kind: "commit", commit: recordOf(one, group, this.identify(transaction), transaction.atUs) });
      landed.add(one.contextId);
    }
    return { atUs: landed.size === 0 ? 0 : transaction.atUs, landed, taken };
  }

  /** Commits of a partition below every transaction that is still running. */
  feed(partition: number, isAfter: (commit: CommitRecord) => boolean): CommitRecord[] {
    let horizon = this.#nextXid;
    for (const { xid } of this.#open) if (xid !== null && xid < horizon) horizon = xid;
    return this.#feed
      .filter((commit) => partitionIn(commit.contextId) === partition && commit.xid < horizon && isAfter(commit))
      .sort(inFeedOrder);
  }

  hasCommits(partition: number, isAfter: (commit: CommitRecord) => boolean): boolean {
    return this.#feed.some((commit) => partitionIn(commit.contextId) === partition && isAfter(commit));
  }

  /** The server stops: every transaction that is not committed is over. */
  stop(): void {
    const locks = [...this.#locks.values()];
    for (const transaction of this.#open) transaction.isOver = true;
    this.#open.clear();
    this.#locks.clear();
    for (const { waiting } of locks) for (const { take } of waiting) take();
  }

  /** The server stops and comes back as it was after the first `length` entries; transaction ids are given out anew from there. */
  restore(length: number, isGenerationRaised: boolean): void {
    this.stop();
    const kept = this.#journal.slice(0, length);
    this.#journal = [];
    this.#contexts = new Map();
    this.#byName = new Map();
    this.#counters = new Map();
    this.#types = new Map();
    this.#feed = [];
    this.due.clear();
    this.#lastType = 0;
    this.#nextXid = 100n;
    for (const entry of kept) this.#apply(entry, false);
    if (isGenerationRaised) this.generation += 1;
  }

  #applyDue({ contextId, atUs, due }: CommitRecord): void {
    for (const { key, row } of due) {
      if (row === null) this.due.delete(dueName(contextId, key));
      else this.due.set(dueName(contextId, key), dueRecord(contextId, key, row.scheduledAtOffset, dueUsOf(row.due, atUs)));
    }
  }

  #end(transaction: Transaction): void {
    transaction.isOver = true;
    this.#open.delete(transaction);
    for (const name of transaction.locked) this.unlock(transaction, name);
  }

  #apply(entry: Entry, isNew: boolean): void {
    this.#journal.push(entry);
    switch (entry.kind) {
      case "context": {
        const { address, contextId, createdAtUs } = entry;
        const context = new ContextRecord(address, contextId, createdAtUs);
        this.#contexts.set(contextId, context);
        this.#byName.set(nameOf(address), context);
        const partition = partitionIn(contextId);
        this.#counters.set(partition, Math.max(this.#counters.get(partition) ?? 0, contextId % 2 ** 40));
        break;
      }
      case "type":
        this.#types.set(entry.name, entry.type);
        this.#lastType = Math.max(this.#lastType, entry.type);
        break;
      case "commit": {
        const context = this.byId(entry.commit.contextId)!;
        context.add(entry.commit);
        this.#feed.push(entry.commit);
        this.#applyDue(entry.commit);
        if (entry.commit.xid >= this.#nextXid) this.#nextXid = entry.commit.xid + 1n;
        if (isNew) this.#onCommit(context, entry.commit);
      }
    }
  }
}

export function dueName(contextId: number, key: string): string {
  return `${contextId} ${key}`;
}

export function dueRecord(contextId: number, key: string, scheduledAtOffset: number, dueUs: number): DueRecord {
  return { contextId, key, scheduledAtOffset, dueUs, claimedUntilUs: -Infinity };
}

export function dueUsOf(due: DueTime, nowUs: number): number {
  switch (due.kind) {
    case "at":
      return due.atMs * 1_000;
    case "after":
      return nowUs + (due.afterMs + 1) * 1_000;
    case "held":
      return Infinity;
  }
}

export function partitionIn(contextId: number): number {
  return Math.floor(contextId / 2 ** 40);
}

function recordOf({ contextId, commit, core, due }: CommitToWrite, group: CommitGroup, xid: bigint, atUs: number): CommitRecord {
  const { commitNo, firstOffset, lastOffset, reservedThrough, lastControl, runnerEpoch, rows } = commit;
  const events = rows.map(({ event, appendId, offset }): EventRecord => {
    const payload = event.payload?.toString() ?? null;
    const metadata = event.metadata?.toString() ?? null;
    return {
      offset,
      type: group.typeNumber(event.type),
      formatVersion: event.formatVersion,
      isControl: event.control !== undefined,
      appendId,
      key: event.idempotencyKey,
      digest: event.bodyDigest,
      createdAtUs: atUs,
      source: event.source,
      traceparent: event.traceparent,
      payload,
      metadata,
      bodyBytes: (event.payload?.length ?? 0) + (event.metadata?.length ?? 0),
    };
  });
  return {
    contextId,
    commitNo,
    firstOffset,
    lastOffset,
    reservedThrough,
    lastControl,
    runnerEpoch,
    generation: group.generation,
    xid,
    traceparent: commitTraceparent(commit),
    atUs,
    events,
    core,
    reducerVersion: group.reducerVersion,
    due,
  };
}

function inFeedOrder(one: CommitRecord, other: CommitRecord): number {
  if (one.xid !== other.xid) return one.xid < other.xid ? -1 : 1;
  return one.contextId - other.contextId || one.commitNo - other.commitNo;
}
