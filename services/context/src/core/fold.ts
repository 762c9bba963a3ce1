/**
 * The fold of the whole core state, and its rows. Every concern has one row for each reducer version, or a row for each part of its
 * state; a commit writes those it changed. All rows of one version are written by processes that fold all concerns, so the newest
 * `as_of` among them holds for every one.
 */
import { appendPolicy } from "./append-policy.js";
import { configPointer } from "./config-pointer.js";
import type { Concern, ControlEvent, CoreState } from "./contract.js";
import { fetchRoutes } from "./fetch-routes.js";
import { identity } from "./identity.js";
import { ingress } from "./ingress.js";
import { pause } from "./pause.js";
import { project } from "./project.js";
import type { Reducer } from "./reducer.js";
import { retention } from "./retention.js";
import { rules } from "./rules.js";
import { schedules } from "./schedules.js";
import { runs } from "./runs.js";
import { secret } from "./secret.js";
import { subscriptions } from "./subscriptions.js";

/**
 * Raise it when any reducer folds or stores something else than before, and when a control type gets another format: old rows are then
 * left alone and states folded anew.
 */
export const coreVersion = 3;

const reducers = {
  identity,
  pause,
  subscriptions,
  rules,
  config: configPointer,
  project,
  secret,
  retention,
  appendPolicy,
  schedules,
  runs,
  fetchRoutes,
  ingress,
} satisfies {
  [Name in Concern]: Reducer<CoreState[Name]>;
};

const concerns = Object.keys(reducers) as Concern[];

const foldingConcerns = concernsByType(({ types }) => types);
const judgingConcerns = concernsByType(({ types, judges = [] }) => [...types, ...judges]);

export const initialCore: CoreState = Object.freeze({
  identity: identity.initial,
  pause: pause.initial,
  subscriptions: subscriptions.initial,
  rules: rules.initial,
  config: configPointer.initial,
  project: project.initial,
  secret: secret.initial,
  appendPolicy: appendPolicy.initial,
  retention: retention.initial,
  schedules: schedules.initial,
  runs: runs.initial,
  fetchRoutes: fetchRoutes.initial,
  ingress: ingress.initial,
});

/** The state after `event`; the same object when nothing changed. */
export function foldCore(core: CoreState, event: ControlEvent): CoreState {
  let next = core;
  for (const concern of foldingConcerns.get(event.type) ?? []) {
    const before = core[concern];
    const after = reducerOf(concern).reduce(before, event, core);
    if (after !== before) next = { ...next, [concern]: after };
  }
  return next;
}

/** Throws what the state says against appending `event`; nothing when it may land. */
export function checkAgainstCore(core: CoreState, event: ControlEvent): void {
  for (const concern of judgingConcerns.get(event.type) ?? []) reducerOf(concern).check?.(core[concern], event, core);
}

/** What the rows of a context are known to hold: a concern that is absent may be stored in any state. */
export type StoredCore = Partial<CoreState>;

/** Concerns whose state differs between two folds of one context, or from what is known to be stored. */
export function changedConcerns(before: StoredCore, after: CoreState): Concern[] {
  return before === after ? [] : concerns.filter((concern) => before[concern] !== after[concern]);
}

export interface ConcernRow {
  /** The concern, or `<concern>/<part>`. */
  readonly concern: string;
  /** Offset folded through. */
  readonly asOf: number;
  /** JSON of the state of the concern or of the part. */
  readonly state: string;
}

/** The rows that hold `after` once they are written over those that hold `before`. */
export function changedRows(before: StoredCore, after: CoreState, asOf: number): ConcernRow[] {
  return changedConcerns(before, after).flatMap((concern) => {
    const { parts } = reducerOf(concern);
    if (parts === undefined) return { concern, asOf, state: JSON.stringify(after[concern]) };
    const stored = before[concern] === undefined ? {} : parts.split(before[concern]);
    return Object.entries(parts.split(after[concern]))
      .filter(([part, state]) => stored[part] !== state)
      .map(([part, state]) => ({ concern: `${concern}/${part}`, asOf, state: JSON.stringify(state) }));
  });
}

/** The state that rows of this version hold, and the offset it is folded through; 0 when there are none. */
export function coreFromRows(rows: readonly ConcernRow[]): { core: CoreState; asOf: number } {
  const core: Record<string, unknown> = { ...initialCore };
  const parts = new Map<Concern, Record<string, unknown>>();
  let asOf = 0;
  for (const row of rows) {
    const [concern, part] = row.concern.split("/") as [Concern, string?];
    if (!(concern in reducers)) continue;
    const state: unknown = JSON.parse(row.state);
    if (part === undefined) core[concern] = state;
    else parts.set(concern, { ...parts.get(concern), [part]: state });
    if (row.asOf > asOf) asOf = row.asOf;
  }
  for (const [concern, held] of parts) core[concern] = reducerOf(concern).parts?.join(held);
  return { core: core as unknown as CoreState, asOf };
}

function concernsByType(typesOf: (reducer: Reducer<unknown>) => readonly string[]): ReadonlyMap<string, readonly Concern[]> {
  const byType = new Map<string, Concern[]>();
  for (const concern of concerns)
    for (const type of typesOf(reducerOf(concern))) byType.set(type, [...(byType.get(type) ?? []), concern]);
  return byType;
}

function reducerOf(concern: Concern): Reducer<unknown> {
  return reducers[concern];
}
