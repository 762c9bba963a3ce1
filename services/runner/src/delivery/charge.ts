/**
 * What a finished attempt does to a subscription. Pure.
 *
 * States of the line, by its charge: `clean` (nothing failed since the last success), `failing` (a batch failed and is repeated
 * whole), `narrowing` (the second failure began to halve the batch; the offender is at or below `narrowThrough`), `alone` (one event
 * is tried by itself and pays for its failures; the last allowed one halts the line), and beside each of them `suspect` (a process was
 * killed while this line was one of several in it: nobody is charged and it is tried alone until it succeeds).
 *
 * Failures are counted against one event. What is away (a service, a target) costs nothing, a limit of the chain of reactions counts
 * as delivered, and an error that no retry can change halts at once.
 */
import type { ErrorCode } from "iterate/lib";
import type { Charge } from "./contract.js";
import { failureLadder, ladderDelayMs, waitLadder, type LadderTimes } from "./ladder.js";

export const clean: Charge = { attempt: 0, charged: 0, width: null, narrowThrough: null, suspect: false };

export interface AttemptFailure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly stack?: string;
}

/** How an attempt ended short of success. */
export type Setback =
  /** The code failed: it threw, ran out of time or quota, or answered what the platform does not take. */
  | { readonly kind: "failed"; readonly failure: AttemptFailure }
  /** The process was ended; `alone` when this attempt was the only one it ran. */
  | { readonly kind: "killed"; readonly alone: boolean; readonly failure: AttemptFailure }
  /** A service the attempt needs is away. `waits` counts the times in a row. */
  | { readonly kind: "away"; readonly waits: number; readonly failure: AttemptFailure }
  /** Nothing answers to the target. */
  | { readonly kind: "dangling"; readonly waits: number; readonly failure: AttemptFailure };

/** The batch of the attempt. */
export interface Tried {
  readonly events: number;
  /** Offset of its last event. */
  readonly lastOffset: number;
}

export type Verdict =
  | { readonly kind: "retry"; readonly charge: Charge; readonly delayMs: number; readonly status: "retrying" | "dangling" }
  /** Stop until resumed. `alone`: the failure belongs to the one event of the batch. */
  | { readonly kind: "halt"; readonly charge: Charge; readonly attempts: number; readonly alone: boolean }
  /** The event counts as delivered although its handler was refused. */
  | { readonly kind: "skip" };

export interface ChargeRules {
  readonly ladder: LadderTimes;
  readonly waits: LadderTimes;
  /** Failures of one event alone that halt the line. */
  readonly maxAttempts: number;
}

export const chargeRules: ChargeRules = { ladder: failureLadder, waits: waitLadder, maxAttempts: 15 };

/** Errors that no repetition changes. */
const permanentCodes: ReadonlySet<ErrorCode> = new Set([
  "PERMANENT_FAILURE",
  "REDUCE_CHECKPOINT_TOO_LARGE",
  "FORBIDDEN",
  "NOT_A_METHOD",
  "EVENT_TOO_LARGE",
  "EVENT_UNREADABLE",
  "OFFSET_TRUNCATED",
]);

/** The charge after a success through `cursor`: the search goes on, at its width, until the cursor passes where the offender can be. */
export function afterSuccess(charge: Charge, cursor: number): Charge {
  if (charge.narrowThrough === null || cursor >= charge.narrowThrough) return clean;
  return { ...clean, width: charge.width, narrowThrough: charge.narrowThrough };
}

/** Decides about an attempt that did not succeed. `random` is in [0, 1). */
export function afterSetback(charge: Charge, tried: Tried, setback: Setback, rules: ChargeRules, random: () => number): Verdict {
  switch (setback.kind) {
    case "away":
      return { kind: "retry", charge, delayMs: ladderDelayMs(setback.waits, rules.waits, random), status: "retrying" };
    case "dangling":
      return { kind: "retry", charge, delayMs: ladderDelayMs(setback.waits, rules.waits, random), status: "dangling" };
    case "killed":
      if (!setback.alone) return { kind: "retry", charge: { ...charge, suspect: true }, delayMs: 0, status: "retrying" };
      return charged(charge, tried, true, rules, random);
    case "failed":
      if (permanentCodes.has(setback.failure.code)) {
        return { kind: "halt", charge: counted(charge, tried), attempts: charge.attempt + 1, alone: tried.events === 1 };
      }
      if (setback.failure.code === "LOOP_LIMIT") return afterLoopLimit(charge, tried);
      return charged(charge, tried, false, rules, random);
  }
}

function charged(charge: Charge, tried: Tried, isKill: boolean, rules: ChargeRules, random: () => number): Verdict {
  const next = counted(charge, tried);
  if (tried.events <= 1) {
    if (next.charged >= rules.maxAttempts) return { kind: "halt", charge: next, attempts: next.charged, alone: true };
    return { kind: "retry", charge: next, delayMs: ladderDelayMs(next.charged, rules.ladder, random), status: "retrying" };
  }
  // A whole batch may have met a passing trouble: it gets a second chance. A kill, or a batch of a search under way, does not.
  const isNarrowing = isKill || next.attempt >= 2 || charge.narrowThrough !== null;
  return {
    kind: "retry",
    charge: isNarrowing ? narrowed(next, tried) : next,
    delayMs: ladderDelayMs(1, rules.ladder, random),
    status: "retrying",
  };
}

/** Finds the event whose chain is too deep without delay, for nothing is wrong with the others; alone it counts as done. */
function afterLoopLimit(charge: Charge, tried: Tried): Verdict {
  if (tried.events <= 1) return { kind: "skip" };
  return { kind: "retry", charge: narrowed(charge, tried), delayMs: 0, status: "retrying" };
}

function counted(charge: Charge, tried: Tried): Charge {
  return { ...charge, attempt: charge.attempt + 1, charged: tried.events <= 1 ? charge.charged + 1 : charge.charged };
}

function narrowed(charge: Charge, tried: Tried): Charge {
  return { ...charge, width: Math.max(1, Math.ceil(tried.events / 2)), narrowThrough: tried.lastOffset };
}
