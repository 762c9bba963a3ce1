/**
 * What a context was at an offset of its past: a fold of its control events, which are kept for as long as the context is, from the
 * nearest snapshot. Whoever folds past a mark leaves a snapshot there, so a fold begins at most `snapshotEvery` control events before
 * its end, whoever asked first. Marks are counted from the first control event, so all processes put them in the same places.
 */
import type { CoreState } from "../core/contract.js";
import { storedControlEvent } from "../core/control-event.js";
import { changedRows, coreFromRows, coreVersion, foldCore, initialCore, type ConcernRow } from "../core/fold.js";
import { Vocabulary } from "../core/vocabulary.js";
import type { LogQueries } from "../log/log-store.js";
import type { SnapshotStore } from "./contract.js";

export interface FoldSteps {
  /** Control events read at a time. */
  readonly page: number;
  /** Control events between two snapshots; a multiple of `page`. */
  readonly snapshotEvery: number;
}

export const foldSteps: FoldSteps = { page: 1_000, snapshotEvery: 10_000 };

export interface PastCoresParts {
  readonly store: Pick<LogQueries, "controlEvents">;
  readonly snapshots: SnapshotStore;
  /** The types that are folded; those of the release when absent. */
  readonly vocabulary?: Vocabulary | undefined;
  readonly reducerVersion?: number | undefined;
  readonly steps?: FoldSteps;
}

export class PastCores {
  readonly #parts: PastCoresParts;
  readonly #vocabulary: Vocabulary;
  readonly #version: number;

  constructor(parts: PastCoresParts) {
    this.#parts = parts;
    this.#vocabulary = parts.vocabulary ?? new Vocabulary();
    this.#version = parts.reducerVersion ?? coreVersion;
  }

  /**
   * The core state after the event at `offset`, which the caller knows to be committed.
   *
   * @throws CodedError UNAVAILABLE (retryable), UPGRADE_REQUIRED (retryable) when a control event below has a newer format than this
   *   release knows; what `signal` was aborted with. What was folded up to a mark is kept, so asking again goes on from there.
   */
  async at(contextId: number, offset: number, signal?: AbortSignal): Promise<CoreState> {
    const { store, snapshots, steps: { page, snapshotEvery } = foldSteps } = this.#parts;
    const nearest = await snapshots.newestSnapshot(contextId, this.#version, offset);
    let core = nearest === null ? initialCore : coreFromRows(JSON.parse(nearest.state) as ConcernRow[]).core;
    let after = nearest?.asOf ?? 0;
    for (let folded = 0; ;) {
      signal?.throwIfAborted();
      const events = await store.controlEvents([{ contextId, after, through: offset }], page);
      for (const stored of events) {
        const event = storedControlEvent(this.#vocabulary, stored);
        if (event !== undefined) core = foldCore(core, event);
      }
      if (events.length < page) return core;
      after = events.at(-1)!.offset;
      folded += events.length;
      if (folded % snapshotEvery === 0)
        await snapshots.keepSnapshot(contextId, this.#version, {
          asOf: after,
          state: JSON.stringify(changedRows({}, core, after)),
        });
    }
  }
}
