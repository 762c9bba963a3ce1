/** What the write side counts; read by metrics and by cost tests. */

/** Since the start of the process. */
export interface CommitCounters {
  groups: number;
  appends: number;
  events: number;
  ephemerals: number;
  lostFences: number;
  claims: number;
  takenKeys: number;
  failures: number;
  foundByAppendId: number;
  emitDivergences: number;
}

export function newCounters(): CommitCounters {
  return {
    groups: 0,
    appends: 0,
    events: 0,
    ephemerals: 0,
    lostFences: 0,
    claims: 0,
    takenKeys: 0,
    failures: 0,
    foundByAppendId: 0,
    emitDivergences: 0,
  };
}
