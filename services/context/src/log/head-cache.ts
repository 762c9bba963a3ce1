/**
 * The contexts a process holds in memory. Entries only move forward, so a load that races a commit cannot put an older head over a
 * newer one. A context that is idle costs nothing once it is pushed out; one that is used again is loaded by one statement.
 */
import type { Concern, CoreState } from "../core/contract.js";
import { changedConcerns, coreFromRows, coreVersion, foldCore, initialCore, type StoredCore } from "../core/fold.js";
import { storedControlEvent } from "../core/control-event.js";
import { Vocabulary } from "../core/vocabulary.js";
import { isCodedError } from "iterate/lib";
import { partitionOf } from "@iterate-platform/service/ids";
import { isClosed, type ContextAddress, type ContextCache, type ContextHead } from "./contract.js";
import type { LastCommit, LogQueries, StoredControl, StoredHead } from "./log-store.js";

/** Control events of one context folded from one statement. */
const foldPage = 1_000;

export interface HeadCacheOptions {
  /** Contexts held at most. */
  readonly maxContexts: number;
  /** Where loads go that bring no connection of their own. */
  readonly store: LogQueries;
  /** The types that are folded; those of the release when absent. */
  readonly vocabulary?: Vocabulary;
  /** Version of the reducers, whose rows alone are read and written; that of the release when absent. */
  readonly reducerVersion?: number;
}

interface Entry {
  head: ContextHead;
  /** The core state as the rows of this version hold it: what differs from `head.core` is written with the next control event. */
  storedCore: StoredCore;
  /** Spares it from the next round of pushing out. */
  isUsed: boolean;
}

/** A head whose core lacks the control events above `after` and through `through`. */
interface Unfolded {
  readonly head: ContextHead;
  readonly after: number;
  readonly through: number;
  /** Concerns that the events folded so far have changed: another process may have stored them. */
  readonly touched: ReadonlySet<Concern>;
}

const untouched: ReadonlySet<Concern> = new Set();

export class HeadCache implements ContextCache {
  readonly reducerVersion: number;
  readonly #options: HeadCacheOptions;
  readonly #byName = new Map<string, Entry>();
  readonly #byId = new Map<number, Entry>();
  readonly #vocabulary: Vocabulary;
  #malformed = 0;

  constructor(options: HeadCacheOptions) {
    this.#options = options;
    this.#vocabulary = options.vocabulary ?? new Vocabulary();
    this.reducerVersion = options.reducerVersion ?? coreVersion;
  }

  get size(): number {
    return this.#byName.size;
  }

  /** Stored control events that had not the shape of their type and were skipped. */
  get malformedEvents(): number {
    return this.#malformed;
  }

  peek(address: ContextAddress): ContextHead | undefined {
    return this.#used(this.#byName.get(nameOf(address)))?.head;
  }

  /** `peek` by `nameOf(address)`. */
  peekByName(name: string): ContextHead | undefined {
    return this.#used(this.#byName.get(name))?.head;
  }

  peekById(contextId: number): ContextHead | undefined {
    return this.#used(this.#byId.get(contextId))?.head;
  }

  /** What is known of the core rows of a context. */
  storedCoreOf({ contextId, commitNo }: ContextHead): StoredCore {
    return commitNo === 0 ? initialCore : (this.#byId.get(contextId)?.storedCore ?? {});
  }

  async load(addresses: readonly ContextAddress[]): Promise<(ContextHead | undefined)[]> {
    const held = addresses.map((address) => this.peek(address));
    const missing = addresses.filter((_, at) => held[at] === undefined);
    const loaded = missing.length === 0 ? new Map<string, ContextHead>() : await this.#loadMissing(missing);
    return addresses.map((address, at) => {
      const head = newer(this.peek(address), held[at] ?? loaded.get(nameOf(address)));
      return head === undefined || head.commitNo === 0 ? undefined : head;
    });
  }

  /** What the database has of contexts that are not held, born or not: one that has no row yet has the id −1. */
  async loadForAppend(addresses: readonly ContextAddress[], store: LogQueries = this.#options.store): Promise<ContextHead[]> {
    const loaded = await this.#loadMissing(addresses, store);
    return addresses.map((address) => newer(this.peek(address), loaded.get(nameOf(address))) ?? unborn(address));
  }

  async refresh(contextIds: readonly number[], store: LogQueries = this.#options.store): Promise<ContextHead[]> {
    const held = contextIds.filter((contextId) => this.#byId.has(contextId));
    const last = held.length === 0 ? [] : await store.lastCommits(held);
    await this.moveTo(last, store);
    // One that was pushed out meanwhile is not held, or is held again as of an earlier look.
    const commitNos = new Map(last.map(({ contextId, commitNo }) => [contextId, commitNo]));
    const current = contextIds.map((contextId) => this.#byId.get(contextId)?.head);
    const missing = contextIds.filter((contextId, at) => (current[at]?.commitNo ?? -1) < (commitNos.get(contextId) ?? 0));
    const loaded = missing.length === 0 ? [] : await this.#loadById(missing, store);
    const byId = new Map(loaded.map((head) => [head.contextId, head]));
    return contextIds.flatMap((contextId, at) => newer(current[at], byId.get(contextId)) ?? []);
  }

  /** Brings held contexts to commits read from the database, folding what they changed; one that is not held is left alone. */
  async moveTo(all: readonly LastCommit[], store: LogQueries): Promise<void> {
    const toFold: Unfolded[] = [];
    for (const last of all) {
      const held = this.#byId.get(last.contextId)?.head;
      if (held === undefined || last.commitNo <= held.commitNo) continue;
      if (isClosed(last)) {
        this.forget(held.address);
        continue;
      }
      const head = { ...held, ...last };
      if (head.lastControl > held.commitNo)
        toFold.push({ head, after: held.lastOffset, through: head.lastOffset, touched: untouched });
      else this.#moved(head, untouched);
    }
    await this.#foldForward(toFold, store, (head, touched) => this.#moved(head, touched));
  }

  /** Takes over what a commit of this process made of a context; `storedCore` is what its rows hold now. */
  committed(head: ContextHead, storedCore: StoredCore): void {
    this.#advance(head, storedCore);
  }

  /** Lets one go: another context may have its name now. */
  forget(address: ContextAddress): void {
    const entry = this.#byName.get(nameOf(address));
    if (entry === undefined) return;
    this.#byName.delete(nameOf(address));
    this.#byId.delete(entry.head.contextId);
  }

  /** Lets everything go: the log is not the one it was loaded from. */
  clear(): void {
    this.#byName.clear();
    this.#byId.clear();
  }

  async #loadMissing(
    addresses: readonly ContextAddress[],
    store: LogQueries = this.#options.store,
  ): Promise<Map<string, ContextHead>> {
    const heads = await this.#take(await store.loadHeads(addresses, this.reducerVersion), store);
    return new Map(heads.map((head) => [nameOf(head.address), head]));
  }

  async #loadById(contextIds: readonly number[], store: LogQueries): Promise<ContextHead[]> {
    return await this.#take(await store.loadHeadsById(contextIds, this.reducerVersion), store);
  }

  /** Heads of what was loaded, folded; those that are born are held from now on. */
  async #take(loaded: readonly StoredHead[], store: LogQueries): Promise<ContextHead[]> {
    const heads: ContextHead[] = [];
    const stored = new Map<number, CoreState>();
    const toFold: Unfolded[] = [];
    for (const { address, contextId, createdAtUs, last, controlThrough, core: rows } of loaded) {
      const base = { ...unborn(address), contextId, createdAtUs };
      if (last === null) {
        heads.push(base);
        continue;
      }
      const { core, asOf } = coreFromRows(rows);
      stored.set(contextId, core);
      toFold.push({
        head: { ...base, ...last, core },
        after: asOf,
        through: controlThrough ?? last.lastOffset,
        touched: untouched,
      });
    }
    await this.#foldForward(toFold, store, (head) => {
      if (!isClosed(head)) this.#advance(head, stored.get(head.contextId)!);
      heads.push(head);
    });
    return heads;
  }

  /** Folds the control events of each head, page by page; asks the database only where there can be any. */
  async #foldForward(
    all: readonly Unfolded[],
    store: LogQueries,
    done: (head: ContextHead, touched: ReadonlySet<Concern>) => void,
  ): Promise<void> {
    let open: Unfolded[] = [];
    for (const unfolded of all) {
      if (unfolded.after < unfolded.through) open.push(unfolded);
      else done(unfolded.head, untouched);
    }
    while (open.length > 0) {
      const events = await store.controlEvents(
        open.map(({ head, after, through }) => ({ contextId: head.contextId, after, through })),
        foldPage,
      );
      const pages = Map.groupBy(events, ({ contextId }) => contextId);
      const next: Unfolded[] = [];
      for (const { head, through, touched: before } of open) {
        const page = pages.get(head.contextId) ?? [];
        const touched = new Set(before);
        const folded = this.#foldPage(head, page, touched);
        if (page.length === foldPage) next.push({ head: folded, after: page.at(-1)!.offset, through, touched });
        else done(folded, touched);
      }
      open = next;
    }
  }

  #foldPage(head: ContextHead, page: readonly StoredControl[], touched: Set<Concern>): ContextHead {
    let { core } = head;
    try {
      for (const stored of page) {
        const event = storedControlEvent(this.#vocabulary, stored);
        if (event === undefined) {
          this.#malformed += 1;
          continue;
        }
        const before = core;
        core = foldCore(core, event);
        for (const concern of changedConcerns(before, core)) touched.add(concern);
      }
    } catch (newer) {
      if (!isCodedError(newer)) throw newer;
      // It concerns this context alone: others that are loaded with it go on.
      return { ...head, core, unreadable: newer };
    }
    return { ...head, core };
  }

  /** Follows commits of other processes: what they changed they have stored, in a state that only they know. */
  #moved(head: ContextHead, touched: ReadonlySet<Concern>): void {
    const stored = this.#byId.get(head.contextId)?.storedCore ?? {};
    if (touched.size === 0) return this.#advance(head, stored);
    this.#advance(head, Object.fromEntries(Object.entries(stored).filter(([concern]) => !touched.has(concern as Concern))));
  }

  #advance(head: ContextHead, storedCore: StoredCore): void {
    const entry = this.#byId.get(head.contextId);
    if (entry !== undefined) {
      if (head.commitNo <= entry.head.commitNo) return;
      entry.head = head;
      entry.storedCore = storedCore;
      return;
    }
    const made: Entry = { head, storedCore, isUsed: true };
    this.#byId.set(head.contextId, made);
    this.#byName.set(nameOf(head.address), made);
    if (this.#byName.size > this.#options.maxContexts) this.#pushOut();
  }

  /** The oldest that was not used since it was last looked at goes. */
  #pushOut(): void {
    for (const [name, entry] of this.#byName) {
      this.#byName.delete(name);
      if (entry.isUsed) {
        entry.isUsed = false;
        this.#byName.set(name, entry);
        continue;
      }
      this.#byId.delete(entry.head.contextId);
      return;
    }
  }

  #used(entry: Entry | undefined): Entry | undefined {
    if (entry !== undefined) entry.isUsed = true;
    return entry;
  }
}

function newer(one: ContextHead | undefined, other: ContextHead | undefined): ContextHead | undefined {
  return one === undefined || (other !== undefined && other.commitNo > one.commitNo) ? other : one;
}

/** Owner and path as one text; neither holds a NUL. */
export function nameOf({ owner, path }: ContextAddress): string {
  return `${owner}\0${path}`;
}

/** A context that has no commit, and no row as far as is known. */
export function unborn(address: ContextAddress): ContextHead {
  return {
    address,
    contextId: -1,
    partition: partitionOf(address.owner, address.path),
    createdAtUs: 0,
    commitNo: 0,
    lastOffset: 0,
    reservedThrough: 0,
    lastControl: 0,
    runnerEpoch: 0,
    generation: 0,
    core: initialCore,
  };
}
