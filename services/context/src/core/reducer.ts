/** One concern of the core state: which control types it folds, and how. */
import type { ControlEvent } from "./contract.js";

export interface Reducer<State> {
  /** The state before any event. */
  readonly initial: State;
  /** Types that change it; no other reaches `reduce`. */
  readonly types: readonly string[];
  /** Pure and total: the same state object means that nothing changed. Payloads have the shape the catalog declares. */
  reduce(state: State, event: ControlEvent): State;
  /** Types it judges without folding them. */
  readonly judges?: readonly string[];
  /** What a state says against an event of `types` or `judges` that is about to be appended. Throws a CodedError, refused or conflict. */
  check?(state: State, event: ControlEvent): void;
}
