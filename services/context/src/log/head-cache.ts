/**
 * The contexts a process holds in memory. Entries only move forward, so a load that races a commit cannot put an older head over a
 * newer one. A context that is idle costs nothing once it is pushed out; one that is used again is loaded by one statement.
 */
import type { CoreState } from "../core/contract.js";
import { coreFromRows, coreVersion, foldCore, initialCore, type ConcernRow } from "../core/fold.js";
import { storedControlEvent } from "../core/control-event.js";
import { partitionOf } from "@iterate-platform/service/ids";
import type { ContextAddress, ContextCache, ContextHead, SqlSession } from "./contract.js";
import {
  controlEvents,
  lastCommits,
  loadHeads,
  loadHeadsById,
  type ControlRow,
  type HeadColumns,
  type LastCommitRow,
  type LoadedByIdRow,
  type LoadedRow,
} from "./head.sql.js";
import { int8Array, textArray } from "./pg-array.js";

/** Control events of one context folded from one statement. */
const foldPage = 1_000;

export interface HeadCacheOptions {
  /** Contexts held at most. */
  readonly maxContexts: number;
  /** Where loads go that bring no session of their own. */
  readonly session: SqlSession;
}

interface Entry {
  head: ContextHead;
  /** The core state as the rows of this version hold it: what differs from `head.core` is written with the next control event. */
  storedCore: CoreState;
  /** Spares it from the next round of pushing out. */
  isUsed: boolean;
}

/** A head whose core lacks the control events above `after` and through `through`. */
interface Unfolded {
  readonly head: ContextHead;
  readonly after: number;
  readonly through: number;
}

export class HeadCache implements ContextCache {
  readonly #options: HeadCacheOptions;
  readonly #byName = new Map<string, Entry>();
  readonly #byId = new Map<number, Entry>();
  #malformed = 0;

  constructor(options: HeadCacheOptions) {
    this.#options = options;
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

  /** The core state that the rows of a held context have; the initial state when it is not held. */
  storedCoreOf(contextId: number): CoreState {
    return this.#byId.get(contextId)?.storedCore ?? initialCore;
  }

  async load(addresses: readonly ContextAddress[]): Promise<(ContextHead | undefined)[]> {
    const missing = addresses.filter((address) => this.peek(address) === undefined);
    const heads = missing.length === 0 ? new Map<string, ContextHead>() : await this.#loadMissing(missing);
    return addresses.map((address) => {
      const head = this.peek(address) ?? heads.get(nameOf(address));
      return head === undefined || head.commitNo === 0 ? undefined : head;
    });
  }

  /** What the database has of contexts that are not held, born or not: one that has no row yet has the id −1. */
  async loadForAppend(addresses: readonly ContextAddress[], session: SqlSession = this.#options.session): Promise<ContextHead[]> {
    const heads = await this.#loadMissing(addresses, session);
    return addresses.map((address) => this.peek(address) ?? heads.get(nameOf(address)) ?? unborn(address));
  }

  async refresh(contextIds: readonly number[], session: SqlSession = this.#options.session): Promise<ContextHead[]> {
    const held = contextIds.filter((contextId) => this.#byId.has(contextId));
    const missing = contextIds.filter((contextId) => !this.#byId.has(contextId));
    if (held.length > 0) await this.moveTo(await session.query<LastCommitRow>(lastCommits, [int8Array(held)]), session);
    const loaded = missing.length === 0 ? [] : await this.#loadById(missing, session);
    const byId = new Map(loaded.map((head) => [head.contextId, head]));
    return contextIds.flatMap((contextId) => this.#byId.get(contextId)?.head ?? byId.get(contextId) ?? []);
  }

  /** Brings held contexts to commits read from the database, folding what they changed; one that is not held is left alone. */
  async moveTo(last: readonly LastCommitRow[], session: SqlSession): Promise<void> {
    const toFold: Unfolded[] = [];
    for (const [id, ...columns] of last) {
      const held = this.#byId.get(Number(id))?.head;
      const moved = headColumns(columns);
      if (held === undefined || moved.commitNo <= held.commitNo) continue;
      const head = { ...held, ...moved };
      if (head.lastControl > held.commitNo) toFold.push({ head, after: held.lastOffset, through: head.lastOffset });
      else this.#advance(head, null);
    }
    await this.#foldForward(toFold, session, (head) => this.#advance(head, null));
  }

  /** Takes over what a commit of this process made of a context; `storedCore` is what its rows hold now. */
  committed(head: ContextHead, storedCore: CoreState): void {
    this.#advance(head, storedCore);
  }

  /** Lets everything go: the log is not the one it was loaded from. */
  clear(): void {
    this.#byName.clear();
    this.#byId.clear();
  }

  async #loadMissing(
    addresses: readonly ContextAddress[],
    session: SqlSession = this.#options.session,
  ): Promise<Map<string, ContextHead>> {
    const rows = await session.query<LoadedRow>(loadHeads, [
      textArray(addresses.map(({ owner }) => owner)),
      textArray(addresses.map(({ path }) => path)),
      coreVersion,
    ]);
    const heads = await this.#take(
      rows.map((row) => ({ address: addresses[Number(row[0]) - 1]!, row })),
      session,
    );
    return new Map(heads.map((head) => [nameOf(head.address), head]));
  }

  async #loadById(contextIds: readonly number[], session: SqlSession): Promise<ContextHead[]> {
    const rows = await session.query<LoadedByIdRow>(loadHeadsById, [int8Array(contextIds), coreVersion]);
    return await this.#take(
      rows.map(([owner, path, ...row]) => ({ address: { owner, path }, row })),
      session,
    );
  }

  /** Heads of loaded rows, folded; those that are born are held from now on. */
  async #take(loaded: readonly { address: ContextAddress; row: LoadedRow }[], session: SqlSession): Promise<ContextHead[]> {
    const heads: ContextHead[] = [];
    const stored = new Map<number, CoreState>();
    const toFold: Unfolded[] = [];
    for (const { address, row } of loaded) {
      const [
        ,
        id,
        createdAtUs,
        commitNo,
        lastOffset,
        reservedThrough,
        lastControl,
        runnerEpoch,
        generation,
        controlThrough,
        coreRows,
      ] = row;
      const base = { ...unborn(address), contextId: Number(id), createdAtUs: Number(createdAtUs) };
      if (commitNo === null) {
        heads.push(base);
        continue;
      }
      const { core, asOf } = coreFromRows(concernRows(coreRows));
      const last = headColumns([commitNo, lastOffset, reservedThrough, lastControl, runnerEpoch, generation]);
      stored.set(base.contextId, core);
      toFold.push({
        head: { ...base, ...last, core },
        after: asOf,
        through: controlThrough === null ? last.lastOffset : Number(controlThrough),
      });
    }
    await this.#foldForward(toFold, session, (head) => {
      this.#advance(head, stored.get(head.contextId)!);
      heads.push(head);
    });
    return heads;
  }

  /** Folds the control events of each head, page by page; asks the database only where there can be any. */
  async #foldForward(all: readonly Unfolded[], session: SqlSession, done: (head: ContextHead) => void): Promise<void> {
    let open: Unfolded[] = [];
    for (const unfolded of all) {
      if (unfolded.after < unfolded.through) open.push(unfolded);
      else done(unfolded.head);
    }
    while (open.length > 0) {
      const rows = await session.query<ControlRow>(controlEvents, [
        int8Array(open.map(({ head }) => head.contextId)),
        int8Array(open.map(({ after }) => after)),
        int8Array(open.map(({ through }) => through)),
        foldPage,
      ]);
      const pages = Map.groupBy(rows, ([contextId]) => Number(contextId));
      const next: Unfolded[] = [];
      for (const { head, through } of open) {
        const page = pages.get(head.contextId) ?? [];
        const folded = { ...head, core: this.#foldPage(head.core, page) };
        if (page.length === foldPage) next.push({ head: folded, after: Number(page.at(-1)![1]), through });
        else done(folded);
      }
      open = next;
    }
  }

  #foldPage(core: CoreState, page: readonly ControlRow[]): CoreState {
    let folded = core;
    for (const [, offset, type, payload] of page) {
      const event = storedControlEvent(Number(offset), type, payload);
      if (event === undefined) this.#malformed += 1;
      else folded = foldCore(folded, event);
    }
    return folded;
  }

  #advance(head: ContextHead, storedCore: CoreState | null): void {
    const entry = this.#byId.get(head.contextId);
    if (entry !== undefined) {
      if (head.commitNo <= entry.head.commitNo) return;
      entry.head = head;
      if (storedCore !== null) entry.storedCore = storedCore;
      return;
    }
    const made: Entry = { head, storedCore: storedCore ?? initialCore, isUsed: true };
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

function headColumns([commitNo, lastOffset, reservedThrough, lastControl, runnerEpoch, generation]: HeadColumns) {
  return {
    commitNo: Number(commitNo),
    lastOffset: Number(lastOffset),
    reservedThrough: Number(reservedThrough),
    lastControl: Number(lastControl),
    runnerEpoch: Number(runnerEpoch),
    generation,
  };
}

function concernRows(json: string | null): ConcernRow[] {
  if (json === null) return [];
  return (JSON.parse(json) as [string, number, string][]).map(([concern, asOf, state]) => ({ concern, asOf, state }));
}
