/** One concern of the core state: which control types it folds, and how. */
import type { ControlEvent, CoreState } from "./contract.js";

export interface Reducer<State> {
  /** The state before any event. */
  readonly initial: State;
  /** Types that change it; no other reaches `reduce`. */
  readonly types: readonly string[];
  /**
   * Pure and total: the same state object means that nothing changed. Payloads have the shape the catalog declares. `core` is the whole
   * state before the event.
   */
  reduce(state: State, event: ControlEvent, core: CoreState): State;
  /** Types it judges without folding them. */
  readonly judges?: readonly string[];
  /** What a state says against an event of `types` or `judges` that is about to be appended. Throws a CodedError, refused or conflict. */
  check?(state: State, event: ControlEvent, core: CoreState): void;
  /** Of a state that may grow large: how it is stored in several rows. */
  readonly parts?: StateParts<State>;
}

/** A state as parts, each a row of its own: a commit writes those whose object is another one, and no others. */
export interface StateParts<State> {
  /** By name. A part that was once there stays. */
  split(state: State): Readonly<Record<string, unknown>>;
  /** The state that parts make; those that were never stored are absent. */
  join(parts: Readonly<Record<string, unknown>>): State;
}
