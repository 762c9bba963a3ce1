/**
 * Restores due rows that are not there: an older release that wrote a commit, an import or a hand in the database may have left a
 * schedule without one. Walks the contexts that hold schedules, one page a round and then from the start, so that a round costs the
 * same however many there are.
 */
import type { ContextHead } from "../log/contract.js";
import { isClosed } from "../log/contract.js";
import type { DueRow, ScheduleStore } from "./contract.js";
import { inForce } from "./due.js";

/** Contexts looked at in one round. */
const pageContexts = 256;

export interface DueSweeperParts {
  readonly store: ScheduleStore;
  /** Version of the reducers whose core rows are looked through. */
  readonly reducerVersion: number;
  /** The contexts as of now; one that is gone is not answered. */
  readonly refresh: (contextIds: readonly number[]) => Promise<readonly ContextHead[]>;
}

export class DueSweeper {
  readonly #parts: DueSweeperParts;
  #after = -1;
  #restored = 0;

  constructor(parts: DueSweeperParts) {
    this.#parts = parts;
  }

  /** Rows that were missing. */
  get restored(): number {
    return this.#restored;
  }

  /** One page. @throws CodedError UNAVAILABLE when the database is away. */
  async round(): Promise<void> {
    const { store, reducerVersion, refresh } = this.#parts;
    const { contextIds, throughContextId } = await store.lackingDue(this.#after, pageContexts, reducerVersion);
    this.#after = throughContextId ?? -1;
    if (contextIds.length === 0) return;
    const rows = (await refresh(contextIds)).flatMap((head) => (isClosed(head) ? [] : rowsOf(head)));
    this.#restored += await store.restoreDue(rows);
  }
}

/** All rows of a context; what is not known to be due is looked at at once. */
function rowsOf({ contextId, core }: ContextHead): DueRow[] {
  return Object.keys(core.schedules).flatMap((key): DueRow[] => {
    const row = inForce(core, key);
    if (row === undefined) return [];
    const { scheduledAtOffset, nextAtMs } = row;
    return [
      { contextId, key, scheduledAtOffset, due: core.pause === null ? { kind: "at", atMs: nextAtMs ?? 0 } : { kind: "held" } },
    ];
  });
}
