/** The questions of `LogQueries` as statements, over a pool or on one connection. */
import type { ConcernRow } from "../../core/fold.js";
import { appendIdBytes } from "../append-id.js";
import type { ContextAddress, ContextHead } from "../contract.js";
import type {
  AppendName,
  BodyRange,
  CommittedAppend,
  LastCommit,
  LogQueries,
  MadeContext,
  OffsetRange,
  StoredBody,
  StoredControl,
  StoredHead,
  TakenKey,
} from "../log-store.js";
import {
  addTypes,
  committedAppends,
  controlEvents,
  lastCommits,
  loadHeads,
  loadHeadsById,
  makeContexts,
  shardGeneration,
  storedBodies,
  takenKeys,
  typeNumbers,
  type AppendRow,
  type BornRow,
  type ControlRow,
  type KeyRow,
  type LastCommitRow,
  type LoadedByIdRow,
  type LoadedRow,
  type StoredBodyRow,
} from "./head.sql.js";
import { int2Array, int8Array, textArray, uuidArray } from "./pg-array.js";
import type { SqlSession } from "./sql-session.js";

export class PostgresQueries<Session extends SqlSession> implements LogQueries {
  protected readonly session: Session;

  constructor(session: Session) {
    this.session = session;
  }

  async generation(): Promise<number> {
    const [row] = await this.session.query<readonly [number]>(shardGeneration, []);
    return row![0];
  }

  async loadHeads(addresses: readonly ContextAddress[], reducerVersion: number): Promise<StoredHead[]> {
    const rows = await this.session.query<LoadedRow>(loadHeads, [
      textArray(addresses.map(({ owner }) => owner)),
      textArray(addresses.map(({ path }) => path)),
      reducerVersion,
    ]);
    return rows.map((row) => storedHead(addresses[Number(row[0]) - 1]!, row));
  }

  async loadHeadsById(contextIds: readonly number[], reducerVersion: number): Promise<StoredHead[]> {
    const rows = await this.session.query<LoadedByIdRow>(loadHeadsById, [int8Array(contextIds), reducerVersion]);
    return rows.map(([owner, path, ...row]) => storedHead({ owner, path }, row));
  }

  async lastCommits(contextIds: readonly number[]): Promise<LastCommit[]> {
    return (await this.session.query<LastCommitRow>(lastCommits, [int8Array(contextIds)])).map(lastCommit);
  }

  async controlEvents(ranges: readonly OffsetRange[], limit: number): Promise<StoredControl[]> {
    const rows = await this.session.query<ControlRow>(controlEvents, [
      int8Array(ranges.map(({ contextId }) => contextId)),
      int8Array(ranges.map(({ after }) => after)),
      int8Array(ranges.map(({ through }) => through)),
      limit,
    ]);
    return rows.map(([contextId, offset, type, formatVersion, payload]) => ({
      contextId: Number(contextId),
      offset: Number(offset),
      type,
      formatVersion,
      payload,
    }));
  }

  async takenKeys(contextId: number, keys: readonly string[]): Promise<TakenKey[]> {
    const rows = await this.session.query<KeyRow>(takenKeys, [int8Array(keys.map(() => contextId)), textArray(keys)]);
    return rows.map(([, key, offset, createdAtUs, digest, source]) => ({
      contextId,
      key,
      offset: Number(offset),
      createdAtUs: Number(createdAtUs),
      digest,
      source,
    }));
  }

  async committedAppends(appends: readonly AppendName[]): Promise<CommittedAppend[]> {
    const rows = await this.session.query<AppendRow>(committedAppends, [
      int8Array(appends.map(({ contextId }) => contextId)),
      uuidArray(appends.map(({ appendId }) => appendIdBytes(appendId))),
    ]);
    return rows.map(([contextId, appendId, offset, createdAtUs]) => ({
      contextId: Number(contextId),
      appendId,
      offset: Number(offset),
      createdAtUs: Number(createdAtUs),
    }));
  }

  async storedBodies(ranges: readonly BodyRange[]): Promise<StoredBody[][]> {
    const rows = await this.session.query<StoredBodyRow>(storedBodies, [
      int8Array(ranges.map(({ contextId }) => contextId)),
      int8Array(ranges.map(({ firstOffset }) => firstOffset)),
      int8Array(ranges.map(({ count }) => count)),
    ]);
    const bodies = ranges.map((): StoredBody[] => []);
    for (const [ordinal, offset, appendId, type, payload, metadata, idempotencyKey, isBare] of rows)
      bodies[Number(ordinal) - 1]!.push({
        offset: Number(offset),
        appendId,
        type,
        payload,
        metadata,
        idempotencyKey,
        ...(isBare ? { isBare } : {}),
      });
    return bodies;
  }

  async makeContexts(contexts: readonly Pick<ContextHead, "address" | "partition">[]): Promise<MadeContext[]> {
    const rows = await this.session.query<BornRow>(makeContexts, [
      textArray(contexts.map(({ address }) => address.owner)),
      textArray(contexts.map(({ address }) => address.path)),
      int2Array(contexts.map(({ partition }) => partition)),
    ]);
    return rows.map(([owner, path, contextId, createdAtUs]) => ({
      address: { owner, path },
      contextId: Number(contextId),
      createdAtUs: Number(createdAtUs),
    }));
  }

  async typeNumbers(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return new Map(await this.session.query<readonly [string, number]>(typeNumbers, [textArray(names)]));
  }

  async addTypes(names: readonly string[]): Promise<void> {
    await this.session.query(addTypes, [textArray(names)]);
  }
}

/** A last commit from its columns, the context's id first. */
export function lastCommit([
  contextId,
  commitNo,
  lastOffset,
  reservedThrough,
  lastControl,
  runnerEpoch,
  generation,
]: LastCommitRow): LastCommit {
  return {
    contextId: Number(contextId),
    commitNo: Number(commitNo),
    lastOffset: Number(lastOffset),
    reservedThrough: Number(reservedThrough),
    lastControl: Number(lastControl),
    runnerEpoch: Number(runnerEpoch),
    generation,
  };
}

function storedHead(address: ContextAddress, row: LoadedRow): StoredHead {
  const [, contextId, createdAtUs, commitNo, lastOffset, reservedThrough, lastControl, runnerEpoch, generation] = row;
  const [controlThrough, coreRows] = [row[9], row[10]];
  return {
    address,
    contextId: Number(contextId),
    createdAtUs: Number(createdAtUs),
    last:
      commitNo === null
        ? null
        : lastCommit([contextId, commitNo, lastOffset, reservedThrough, lastControl, runnerEpoch, generation]),
    controlThrough: controlThrough === null ? null : Number(controlThrough),
    core: coreRows === null ? [] : concernRows(coreRows),
  };
}

function concernRows(json: string): ConcernRow[] {
  return (JSON.parse(json) as [string, number, string][]).map(([concern, asOf, state]) => ({ concern, asOf, state }));
}
