/** The values of the commit statement: planned commits of several contexts as columns, each event looked at once. */
import { appendIdBytes } from "../append-id.js";
import type { CommitGroup, CommitToWrite } from "../log-store.js";
import { commitTraceparent } from "../plan.js";
import type { CommitShape } from "./commit.sql.js";
import { boolArray, byteaArray, int2Array, int4Array, int8Array, sparse, textArray, uuidArray } from "./pg-array.js";

export interface CommitValues {
  readonly shape: CommitShape;
  readonly values: unknown[];
}

export function commitValues(group: CommitGroup, isClaimed: boolean): CommitValues {
  const { commits, generation, writer } = group;
  const planned = commits.map(({ commit }) => commit);
  const columns = eventColumns(group);
  const values: unknown[] = [
    generation,
    writer,
    int8Array(commits.map(({ contextId }) => contextId)),
    int8Array(planned.map(({ commitNo }) => commitNo)),
    int8Array(planned.map(({ firstOffset }) => firstOffset)),
    int8Array(planned.map(({ lastOffset }) => lastOffset)),
    int8Array(planned.map(({ reservedThrough }) => reservedThrough)),
    int8Array(planned.map(({ lastControl }) => lastControl)),
    int8Array(planned.map(({ runnerEpoch }) => runnerEpoch)),
    sparse(planned.map(commitTraceparent), textArray),
    int8Array(columns.contextId),
    int8Array(columns.offset),
    int4Array(columns.type),
    int2Array(columns.formatVersion),
    boolArray(columns.isControl),
    uuidArray(columns.appendId),
    sparse(columns.key, textArray),
    sparse(columns.digest, byteaArray),
    textArray(columns.source),
    sparse(columns.traceparent, textArray),
    sparse(columns.payload, textArray),
    sparse(columns.metadata, textArray),
  ];
  const hasKeys = addKeys(values, commits);
  const hasCore = addCore(values, group);
  const guards = addGuards(values, group);
  return { shape: { hasKeys, hasCore, guards, hasDue: addDue(values, commits), isClaimed }, values };
}

/** One root is named by value, so that one partition is looked at; that is what the commits of one project need. */
function addGuards(values: unknown[], { commits }: CommitGroup): CommitShape["guards"] {
  const guards = [...new Set(commits.flatMap((commit) => commit.guards))];
  if (guards.length === 0) return "none";
  values.push(
    int8Array(commits.map((commit) => commit.guards[0]?.contextId ?? 0)),
    int8Array(guards.map(({ contextId }) => contextId)),
    int8Array(guards.map(({ lastControl }) => lastControl)),
  );
  return guards.length === 1 ? "one" : "many";
}

/** The events of all commits by column, in one pass. */
function eventColumns({ commits, typeNumber }: CommitGroup) {
  const columns = {
    contextId: [] as number[],
    offset: [] as number[],
    type: [] as number[],
    formatVersion: [] as number[],
    isControl: [] as boolean[],
    appendId: [] as (Buffer | null)[],
    key: [] as (string | null)[],
    digest: [] as (Buffer | null)[],
    source: [] as string[],
    traceparent: [] as (string | null)[],
    payload: [] as (Buffer | null)[],
    metadata: [] as (Buffer | null)[],
  };
  for (const { contextId, commit } of commits) {
    for (const { event, appendId, offset } of commit.rows) {
      columns.contextId.push(contextId);
      columns.offset.push(offset);
      columns.type.push(typeNumber(event.type));
      columns.formatVersion.push(event.formatVersion);
      columns.isControl.push(event.control !== undefined);
      columns.appendId.push(appendId === null ? null : appendIdBytes(appendId));
      columns.key.push(event.idempotencyKey);
      columns.digest.push(event.bodyDigest);
      columns.source.push(event.source);
      columns.traceparent.push(event.traceparent);
      columns.payload.push(event.payload);
      columns.metadata.push(event.metadata);
    }
  }
  return columns;
}

function addKeys(values: unknown[], commits: readonly CommitToWrite[]): boolean {
  const contextIds: number[] = [];
  const keys: string[] = [];
  for (const { contextId, commit } of commits) {
    for (const key of commit.keysToCheck) {
      contextIds.push(contextId);
      keys.push(key);
    }
  }
  if (keys.length === 0) return false;
  values.push(int8Array(contextIds), textArray(keys));
  return true;
}

/** One that is to be removed has the offset 0; a time is one or the other, or both −1 for one that is held. */
function addDue(values: unknown[], commits: readonly CommitToWrite[]): boolean {
  const contextIds: number[] = [];
  const keys: string[] = [];
  const scheduledAt: number[] = [];
  const atMs: number[] = [];
  const afterMs: number[] = [];
  for (const { contextId, due } of commits) {
    for (const { key, row } of due) {
      contextIds.push(contextId);
      keys.push(key);
      scheduledAt.push(row?.scheduledAtOffset ?? 0);
      atMs.push(row?.due.kind === "at" ? Math.max(0, row.due.atMs) : -1);
      afterMs.push(row?.due.kind === "after" ? row.due.afterMs : -1);
    }
  }
  if (contextIds.length === 0) return false;
  values.push(int8Array(contextIds), textArray(keys), int8Array(scheduledAt), int8Array(atMs), int8Array(afterMs));
  return true;
}

function addCore(values: unknown[], { commits, reducerVersion }: CommitGroup): boolean {
  const contextIds: number[] = [];
  const concerns: string[] = [];
  const asOfs: number[] = [];
  const states: string[] = [];
  for (const { contextId, core } of commits) {
    for (const { concern, asOf, state } of core) {
      contextIds.push(contextId);
      concerns.push(concern);
      asOfs.push(asOf);
      states.push(state);
    }
  }
  if (contextIds.length === 0) return false;
  values.push(reducerVersion, int8Array(contextIds), textArray(concerns), int8Array(asOfs), textArray(states));
  return true;
}
