/**
 * What waits to be committed. Appends of one context keep their order and form one commit; the contexts of one owner take turns, and
 * so do owners, so nobody's backlog is in another's way.
 *
 * A context is `loading` while its head is read, `ready` while appends wait and nothing of it is under way, `taken` while a group
 * or the lane for large appends has it, and is forgotten when nothing waits.
 */
import type { Writer } from "../caller/contract.js";
import { appendIdBytes } from "./append-id.js";
import {
  isClosed,
  type AppendReceipt,
  type ContextAddress,
  type ContextHead,
  type PolicyGuard,
  type StorableEvent,
} from "./contract.js";
import { queueLimits } from "./limits.js";
import type { PlannedAppend, StoredKey } from "./plan.js";

/** Who keeps the books of what waits: told once of each append, just before it is answered or refused. */
export interface AppendBooks {
  appendSettled(append: PendingAppend): void;
}

/** One append on its way. There are thousands at a time: it is one object, without closures of its own. */
export class PendingAppend implements PlannedAppend {
  readonly appendId: string;
  readonly writer: Writer;
  readonly traceparent: string | null;
  /** Since when nothing but its turn is missing. */
  waitsSinceMs: number;
  /** True once it is answered or refused. */
  isSettled = false;
  /** `null` until its bodies are examined. */
  completed: readonly StorableEvent[] | null = null;
  bytes = 0;
  /** Commits lost to another process. */
  losses = 0;
  /** Statements that failed with it. */
  failures = 0;
  /** Shares no statement any more: one of those it failed with may have been spoiled by it. */
  isAlone = false;
  /** The confirmation of its context that it was part of; see `ContextQueue.confirm`. */
  confirmedIn = 0;
  /** What its commit must prove; `null` when nothing refuses it. */
  guard: PolicyGuard | null;
  /** Name under which it is known to be under way; `null` for one that nobody can repeat. */
  readonly key: string | null;
  readonly #books: AppendBooks;
  readonly #resolve: (receipts: readonly AppendReceipt[]) => void;
  readonly #reject: (error: Error) => void;

  constructor(
    { appendId, writer, traceparent, key, guard }: Pick<PendingAppend, "appendId" | "writer" | "traceparent" | "key" | "guard">,
    waitsSinceMs: number,
    books: AppendBooks,
    resolve: (receipts: readonly AppendReceipt[]) => void,
    reject: (error: Error) => void,
  ) {
    this.appendId = appendId;
    this.writer = writer;
    this.traceparent = traceparent;
    this.key = key;
    this.guard = guard;
    this.waitsSinceMs = waitsSinceMs;
    this.#books = books;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  resolve(receipts: readonly AppendReceipt[]): void {
    if (this.isSettled) return;
    this.isSettled = true;
    this.#books.appendSettled(this);
    this.#resolve(receipts);
  }

  reject(error: unknown): void {
    if (this.isSettled) return;
    this.isSettled = true;
    this.#books.appendSettled(this);
    this.#reject(error instanceof Error ? error : new Error(String(error)));
  }

  get events(): readonly StorableEvent[] {
    return this.completed!;
  }

  get idBytes(): Buffer {
    return appendIdBytes(this.appendId);
  }

  complete(events: readonly StorableEvent[]): void {
    this.completed = events;
    for (const event of events) this.bytes += event.bytes;
  }
}

export class ContextQueue {
  readonly name: string;
  readonly address: ContextAddress;
  state: "loading" | "ready" | "taken" | "resting" = "loading";
  /** What was known when it was loaded, born, or reloaded; the cache may know a later commit. */
  head: ContextHead | null = null;
  /** Generation of the shard that `head` was read in. */
  generation = 0;
  /** Looked up for the appends that wait: the event under a key, or `null`. */
  known = new Map<string, StoredKey | null>();
  #confirmation = 1;
  readonly #pending: PendingAppend[] = [];
  #first = 0;

  constructor(name: string, address: ContextAddress) {
    this.name = name;
    this.address = address;
  }

  get length(): number {
    return this.#pending.length - this.#first;
  }

  /** The first append, if it is complete. */
  get next(): PendingAppend | undefined {
    const append = this.#pending[this.#first];
    return append?.completed == null ? undefined : append;
  }

  push(append: PendingAppend): void {
    this.#pending.push(append);
  }

  shift(): PendingAppend {
    const append = this.#pending[this.#first]!;
    this.#first += 1;
    if (this.#first > 256 && this.#first * 2 > this.#pending.length) {
      this.#pending.splice(0, this.#first);
      this.#first = 0;
    }
    return append;
  }

  /** Puts appends back before all that wait, in their order. */
  putBack(appends: readonly PendingAppend[]): void {
    this.#pending.splice(0, this.#first, ...appends);
    this.#first = 0;
  }

  remove(append: PendingAppend): void {
    const index = this.#pending.indexOf(append, this.#first);
    if (index >= 0) this.#pending.splice(index, 1);
  }

  /** Takes all that wait, complete or not. */
  drain(): PendingAppend[] {
    const all = this.#pending.slice(this.#first);
    this.#pending.length = 0;
    this.#first = 0;
    return all;
  }

  /** It was replaced by another one of its name. */
  get isClosed(): boolean {
    return this.head !== null && isClosed(this.head);
  }

  /** Takes over what the database has now. */
  reloaded(head: ContextHead, generation: number): void {
    this.head = head;
    this.generation = generation;
    this.forgetLookups();
  }

  /** `head`, `known`, and that none of `appends` is in the log, were read after these arrived. */
  confirm(appends: readonly PendingAppend[], known: Map<string, StoredKey | null>): void {
    this.known = known;
    for (const append of appends) append.confirmedIn = this.#confirmation;
  }

  /** Whether what is known of the context was read after the append arrived, and nothing became of the context since. */
  isConfirmedFor(append: PendingAppend): boolean {
    return append.confirmedIn === this.#confirmation;
  }

  forgetLookups(): void {
    if (this.known.size > 0) this.known = new Map();
    this.#confirmation += 1;
  }
}

/** Appends of one context that go into one commit. */
export interface ContextBatch {
  readonly context: ContextQueue;
  readonly appends: PendingAppend[];
}

/** Contexts that are ready, in the order of their turns. */
export class FairQueue {
  readonly #owners = new Map<string, Set<ContextQueue>>();
  readonly #large: ContextQueue[] = [];
  /** Contexts whose first append shares no statement. */
  readonly #alone: ContextQueue[] = [];
  #wasAlone = false;

  /** Makes a context wait for its turn; its first append must be complete. */
  add(context: ContextQueue): void {
    context.state = "ready";
    const { owner } = context.address;
    const contexts = this.#owners.get(owner);
    if (contexts === undefined) this.#owners.set(owner, new Set([context]));
    else contexts.add(context);
  }

  /** The contexts whose first append is too large to share a statement, as far as `takeGroup` met them. */
  takeLarge(): ContextQueue[] {
    return this.#large.splice(0);
  }

  /** The next group; its contexts are `taken`. Empty when nothing is ready. Groups and lone appends take turns. */
  takeGroup(): ContextBatch[] {
    const group = this.#alone.length > 0 && !this.#wasAlone ? [] : this.#takeShared();
    this.#wasAlone = group.length === 0 && this.#alone.length > 0;
    if (!this.#wasAlone) return group;
    const context = this.#alone.shift()!;
    return [{ context, appends: [context.shift()] }];
  }

  #takeShared(): ContextBatch[] {
    const batches = new Map<ContextQueue, ContextBatch>();
    let count = 0;
    let bytes = 0;
    while (this.#owners.size > 0 && count < queueLimits.groupAppends) {
      const [owner, contexts] = this.#owners.entries().next().value!;
      const [context] = contexts;
      this.#leave(owner, contexts, context!);
      const first = context!.next!;
      if (first.bytes > queueLimits.groupBytes) {
        context!.state = "taken";
        this.#large.push(context!);
        continue;
      }
      if (first.isAlone) {
        context!.state = "taken";
        this.#alone.push(context!);
        continue;
      }
      const batch = batches.get(context!) ?? { context: context!, appends: [] };
      const room = Math.min(queueLimits.quantum, queueLimits.groupAppends - count);
      const taken = takeFrom(context!, room, queueLimits.groupBytes - bytes);
      if (taken.length > 0) {
        batch.appends.push(...taken);
        batches.set(context!, batch);
        count += taken.length;
        for (const append of taken) bytes += append.bytes;
      }
      const isFull = taken.length === 0;
      // What is left of a context waits for the next group unless nothing but its turn was over.
      if (mayFollow(context!, batch.appends)) this.add(context!);
      if (isFull) break;
    }
    for (const context of batches.keys()) {
      if (context.state === "ready") this.#leave(context.address.owner, this.#owners.get(context.address.owner), context);
      context.state = "taken";
    }
    return [...batches.values()];
  }

  #leave(owner: string, contexts: Set<ContextQueue> | undefined, context: ContextQueue): void {
    if (contexts === undefined || !contexts.delete(context)) return;
    this.#owners.delete(owner);
    if (contexts.size > 0) this.#owners.set(owner, contexts);
  }
}

/** Whether the next append of a context may join those that were taken of it. */
function mayFollow(context: ContextQueue, taken: readonly PendingAppend[]): boolean {
  const { next } = context;
  if (next === undefined || next.isAlone || next.bytes > queueLimits.groupBytes) return false;
  return taken.length === 0 || context.isConfirmedFor(next) || !context.isConfirmedFor(taken[0]!);
}

function takeFrom(context: ContextQueue, room: number, bytes: number): PendingAppend[] {
  const taken: PendingAppend[] = [];
  let left = bytes;
  // Those that were confirmed are decided by themselves: what came after them is not covered by what was read.
  const isConfirmed = context.isConfirmedFor(context.next!);
  for (
    let next = context.next;
    next !== undefined &&
    taken.length < room &&
    !next.isAlone &&
    next.bytes <= left &&
    (!isConfirmed || context.isConfirmedFor(next));
    next = context.next
  ) {
    left -= next.bytes;
    taken.push(context.shift());
  }
  return taken;
}
