/** Exports and imports in Postgres. */
import { sqlState } from "@iterate-platform/service/sqlstate";
import { codedError } from "iterate/lib";
import type { ArchivedEvent, ArchiveStore, StagedCommit, StagedEvent } from "../../archive/contract.js";
import { AlreadyStored } from "../already-stored.js";
import { appendIdBytes } from "../append-id.js";
import type { LogStore } from "../log-store.js";
import * as sql from "./archive.sql.js";
import { boolArray, byteaArray, int2Array, int4Array, int8Array, sparse, textArray, uuidArray } from "./pg-array.js";
import { firstOffset } from "./read.sql.js";
import type { SqlSession } from "./sql-session.js";

/** Contexts, and rows of one context, that one step works on. */
const stepContexts = 200;
const stepRows = 2_000;
/** Times a context is tried to be closed in one step: each can only be lost to a commit of the same moment, which a busy writer has. */
const closeTries = 256;
/** Type numbers remembered. */
const maxTypes = 10_000;
const uniqueViolation = "23505";

export class PostgresArchiveStore implements ArchiveStore {
  readonly #session: SqlSession;
  readonly #log: LogStore;
  readonly #types = new Map<string, number>();

  constructor(session: SqlSession, log: LogStore) {
    this.#session = session;
    this.#log = log;
  }

  async pathsOf(owner: string, after: string, limit: number): Promise<string[]> {
    return (await this.#session.query<readonly [string]>(sql.pathsOf, [owner, after, limit])).map(([path]) => path);
  }

  async firstOffsetOf(contextId: number): Promise<number> {
    const [row] = await this.#session.query<readonly [string]>(firstOffset, [contextId]);
    return row === undefined ? 1 : Number(row[0]);
  }

  async eventsOf({
    contextId,
    after,
    through,
    firstOffset,
    maxEvents,
    maxBytes,
  }: Parameters<ArchiveStore["eventsOf"]>[0]): Promise<ArchivedEvent[]> {
    const sizes = await this.#session.query<readonly [string, number]>(sql.archiveSizes, [
      contextId,
      after,
      through,
      maxEvents,
      firstOffset,
    ]);
    let bytes = 0;
    let last: string | null = null;
    for (const [offset, size] of sizes) {
      if (last !== null && bytes + size > maxBytes) break;
      bytes += size;
      last = offset;
    }
    if (last === null) return [];
    const rows = await this.#session.query<sql.ArchiveRow>(sql.archiveEvents, [contextId, after, last, firstOffset]);
    return rows.map(archivedEvent);
  }

  async beginImport(id: string, owner: string): Promise<boolean> {
    const [row] = await this.#session.query<readonly [string]>(sql.beginImport, [id, owner]);
    return row?.[0] === id;
  }

  async hasContexts(owner: string): Promise<boolean> {
    return (await this.#session.query(sql.hasContexts, [owner])).length > 0;
  }

  async stageContext(id: string, path: string, partition: number): Promise<number> {
    const [made] = await this.#log.makeContexts([{ address: { owner: stagedName(id), path }, partition }]);
    if (made === undefined) throw codedError("INVALID_INPUT", `the archive holds the context ${path} twice`, { path });
    return made.contextId;
  }

  async stageCommit(id: string, generation: number, commit: StagedCommit): Promise<void> {
    const { contextId, commitNo, firstOffset, lastOffset, reservedThrough, lastControl, partition, events } = commit;
    await this.#learn(events);
    const values = [id, generation, contextId, commitNo, firstOffset, lastOffset, reservedThrough, lastControl, partition];
    const rows = await this.#session.query(sql.stageCommit, [...values, ...this.#columns(events)]).catch((error: unknown) => {
      throw sqlState(error) === uniqueViolation ? new AlreadyStored(error) : error;
    });
    if (rows.length === 0) throw codedError("CANCELLED", "the import was given up");
  }

  async stageRetention(contextId: number, firstOffset: number): Promise<void> {
    await this.#session.query(sql.stageRetention, [contextId, firstOffset]);
  }

  async stageDue(contextId: number, schedules: readonly { readonly key: string; readonly scheduledAtOffset: number }[]) {
    const keys = textArray(schedules.map(({ key }) => key));
    await this.#session.query(sql.stageDue, [
      contextId,
      keys,
      int8Array(schedules.map(({ scheduledAtOffset }) => scheduledAtOffset)),
    ]);
  }

  async openStep(id: string, owner: string): Promise<boolean> {
    const [found] = await this.#session.query<readonly [boolean]>(sql.findImport, [id]);
    if (found === undefined) return false;
    const [isCleared] = found;
    if (!isCleared) {
      const rows = await this.#session.query<readonly [string]>(sql.standingContexts, [owner, id, stepContexts]);
      const standing = rows.map(([contextId]) => Number(contextId));
      if (standing.length === 0) await this.#session.query(sql.clearImport, [id]);
      else await this.#replace(standing, id);
      return true;
    }
    const taken = await this.#session.query(sql.takeContexts, [stagedName(id), owner, stepContexts]);
    if (taken.length > 0) return true;
    await this.#session.query(sql.endImport, [id]);
    return false;
  }

  async removeStep(id: string): Promise<boolean> {
    await this.#session.query(sql.giveUpImport, [id]);
    for (const name of [stagedName(id), replacedName(id)]) {
      const contextIds = await this.#contextsOf(name);
      for (const contextId of contextIds) if (!(await this.#remove(contextId))) return true;
      if (contextIds.length > 0) return true;
    }
    await this.#session.query(sql.endImport, [id]);
    return false;
  }

  async #contextsOf(owner: string): Promise<number[]> {
    const rows = await this.#session.query<readonly [string]>(sql.contextsOf, [owner, stepContexts]);
    return rows.map(([contextId]) => Number(contextId));
  }

  /** No append lands in them any more, no read sees them, and their names are free. In this order. */
  async #replace(contextIds: readonly number[], id: string): Promise<void> {
    const open = new Set(contextIds);
    for (let attempt = 0; open.size > 0; attempt += 1) {
      if (attempt === closeTries)
        throw codedError("UNAVAILABLE", "the contexts that are replaced are appended to without a pause; try again");
      for (const [closed] of await this.#session.query<readonly [string]>(sql.closeContexts, [int8Array([...open])]))
        open.delete(Number(closed));
    }
    await this.#session.query(sql.shutContexts, [int8Array(contextIds)]);
    await this.#session.query(sql.renameContexts, [int8Array(contextIds), replacedName(id)]);
  }

  /** False when rows are left. */
  async #remove(contextId: number): Promise<boolean> {
    for (const statement of [sql.removeEvents, sql.removeCommits]) {
      const [row] = await this.#session.query<readonly [number]>(statement, [contextId, stepRows]);
      if (row![0] === stepRows) return false;
    }
    await this.#session.query(sql.removeContext, [contextId]);
    return true;
  }

  async #learn(events: readonly StagedEvent[]): Promise<void> {
    const missing = [...new Set(events.map(({ type }) => type))].filter((type) => !this.#types.has(type));
    if (missing.length === 0) return;
    if (this.#types.size + missing.length > maxTypes) this.#types.clear();
    const wanted = [...new Set(events.map(({ type }) => type))];
    await this.#log.addTypes(wanted);
    for (const [name, type] of await this.#log.typeNumbers(wanted)) this.#types.set(name, type);
  }

  #columns(events: readonly StagedEvent[]): unknown[] {
    return [
      int8Array(events.map(({ offset }) => offset)),
      int4Array(events.map(({ type }) => this.#types.get(type)!)),
      int2Array(events.map(({ formatVersion }) => formatVersion)),
      boolArray(events.map(({ isControl }) => isControl)),
      uuidArray(events.map(({ appendId }) => (appendId === null ? null : appendIdBytes(appendId)))),
      sparse(
        events.map(({ idempotencyKey }) => idempotencyKey),
        textArray,
      ),
      sparse(
        events.map(({ bodyDigest }) => bodyDigest),
        byteaArray,
      ),
      int8Array(events.map(({ createdAtUs }) => createdAtUs ?? 0)),
      textArray(events.map(({ source }) => source)),
      sparse(
        events.map(({ traceparent }) => traceparent),
        textArray,
      ),
      sparse(
        events.map(({ payload }) => payload),
        textArray,
      ),
      sparse(
        events.map(({ metadata }) => metadata),
        textArray,
      ),
    ];
  }
}

/** The owner under which an import's contexts are written: no owner of a call has such a name. */
export function stagedName(id: string): string {
  return `imp_${id}`;
}

/** The owner of contexts that were replaced, until they are removed. */
export function replacedName(id: string): string {
  return `rem_${id}`;
}

function archivedEvent([
  offset,
  type,
  formatVersion,
  createdAtUs,
  appendId,
  idempotencyKey,
  source,
  traceparent,
  payload,
  metadata,
]: sql.ArchiveRow): ArchivedEvent {
  return {
    offset: Number(offset),
    type,
    formatVersion,
    createdAtUs: Number(createdAtUs),
    appendId,
    idempotencyKey,
    source,
    traceparent,
    payload,
    metadata,
  };
}
