/** The values of the commit statement: planned commits of several contexts as columns. */
import type { ContextHead } from "./contract.js";
import type { CoreState } from "../core/contract.js";
import { changedConcerns, coreVersion } from "../core/fold.js";
import { appendIdBytes } from "./append-id.js";
import type { CommitShape } from "./commit.sql.js";
import type { PlannedCommit } from "./plan.js";
import { boolArray, byteaArray, int2Array, int4Array, int8Array, sparse, textArray, uuidArray } from "./pg-array.js";

/** A planned commit whose context has its id. */
export interface CommitToWrite {
  readonly head: ContextHead;
  readonly commit: PlannedCommit;
  /** What the core rows of the context hold now. */
  readonly storedCore: CoreState;
}

export interface CommitValues {
  readonly shape: CommitShape;
  readonly values: unknown[];
}

export function commitValues(
  commits: readonly CommitToWrite[],
  generation: number,
  writer: number,
  typeNumber: (type: string) => number,
  isClaimed: boolean,
): CommitValues {
  const planned = commits.map(({ commit }) => commit);
  const columns = eventColumns(commits, typeNumber);
  const values: unknown[] = [
    generation,
    writer,
    int8Array(commits.map(({ head }) => head.contextId)),
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
  const hasCore = addCore(values, commits);
  return { shape: { hasKeys, hasCore, isClaimed }, values };
}

/** The events of all commits by column, in one pass. */
function eventColumns(commits: readonly CommitToWrite[], typeNumber: (type: string) => number) {
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
  for (const { head, commit } of commits) {
    let offset = commit.firstOffset;
    for (const { event, appendId } of commit.rows) {
      columns.contextId.push(head.contextId);
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
      offset += 1;
    }
  }
  return columns;
}

/** The feed shows one trace for each commit: that of its first traced append. */
export function commitTraceparent({ rows }: PlannedCommit): string | null {
  for (const { event } of rows) if (event.traceparent !== null) return event.traceparent;
  return null;
}

function addKeys(values: unknown[], commits: readonly CommitToWrite[]): boolean {
  const contextIds: number[] = [];
  const keys: string[] = [];
  for (const { head, commit } of commits) {
    for (const key of commit.keysToCheck) {
      contextIds.push(head.contextId);
      keys.push(key);
    }
  }
  if (keys.length === 0) return false;
  values.push(int8Array(contextIds), textArray(keys));
  return true;
}

/** Rows of the concerns that changed since they were stored, of the commits that hold a control event. */
function addCore(values: unknown[], commits: readonly CommitToWrite[]): boolean {
  const contextIds: number[] = [];
  const concerns: string[] = [];
  const asOf: number[] = [];
  const states: string[] = [];
  for (const { head, commit, storedCore } of commits) {
    if (commit.lastControl !== commit.commitNo) continue;
    for (const concern of changedConcerns(storedCore, commit.core)) {
      contextIds.push(head.contextId);
      concerns.push(concern);
      asOf.push(commit.lastOffset);
      states.push(JSON.stringify(commit.core[concern]));
    }
  }
  if (contextIds.length === 0) return false;
  values.push(coreVersion, int8Array(contextIds), textArray(concerns), int8Array(asOf), textArray(states));
  return true;
}
