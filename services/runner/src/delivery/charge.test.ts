import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { afterSetback, afterSuccess, chargeRules, clean, type Setback, type Verdict } from "./charge.js";
import type { Charge } from "./contract.js";
import { ladderDelayMs } from "./ladder.js";

const half = (): number => 0;
const failed: Setback = { kind: "failed", failure: { code: "CODE_FAILED", message: "no" } };
const failedWith = (
  code: "PERMANENT_FAILURE" | "REDUCE_CHECKPOINT_TOO_LARGE" | "FORBIDDEN" | "NOT_A_METHOD" | "EVENT_TOO_LARGE" | "LOOP_LIMIT",
): Setback => ({
  kind: "failed",
  failure: { code, message: "no" },
});
const killed = (alone: boolean): Setback => ({ kind: "killed", alone, failure: { code: "ISOLATE_CPU", message: "loop" } });

describe("the ladder", () => {
  it.each([
    [1, 1_000],
    [2, 2_000],
    [11, 1_024_000],
    [12, 1_800_000],
    [500, 1_800_000],
  ])("waits at failure %i between half of %i ms and all of it", (failures, rung) => {
    expect(ladderDelayMs(failures, chargeRules.ladder, () => 0)).toBe(rung / 2);
    expect(ladderDelayMs(failures, chargeRules.ladder, () => 1)).toBe(rung);
  });
});

describe("charging failures", () => {
  it("[iterate-49] halts one event alone at its fifteenth failure, not at its fourteenth", () => {
    let charge = clean;
    for (let failure = 1; failure < 15; failure += 1) {
      const verdict = afterSetback(charge, { events: 1, lastOffset: 7 }, failed, chargeRules, half);
      if (verdict.kind !== "retry") throw new Error(`failure ${failure} gave ${verdict.kind}`);
      expect(verdict.delayMs).toBe(Math.min(1_800_000, 1_000 * 2 ** (failure - 1)) / 2);
      charge = verdict.charge;
    }
    expect(afterSetback(charge, { events: 1, lastOffset: 7 }, failed, chargeRules, half)).toMatchObject({
      kind: "halt",
      attempts: 15,
      alone: true,
    });
  });

  it.each(["PERMANENT_FAILURE", "REDUCE_CHECKPOINT_TOO_LARGE", "FORBIDDEN", "NOT_A_METHOD", "EVENT_TOO_LARGE"] as const)(
    "[iterate-50] %s halts at once with one attempt",
    (code) => {
      expect(afterSetback(clean, { events: 40, lastOffset: 40 }, failedWith(code), chargeRules, half)).toMatchObject({
        kind: "halt",
        attempts: 1,
      });
    },
  );

  it("[iterate-53] what is away or dangling spends no attempt, however often", () => {
    for (const kind of ["away", "dangling"] as const) {
      let charge = clean;
      for (let waits = 1; waits < 100; waits += 1) {
        const verdict = afterSetback(
          charge,
          { events: 3, lastOffset: 3 },
          { kind, waits, failure: { code: "UNAVAILABLE", message: "away" } },
          chargeRules,
          half,
        );
        if (verdict.kind !== "retry") throw new Error("a wait never halts");
        expect(verdict.delayMs).toBeLessThanOrEqual(30_000);
        charge = verdict.charge;
      }
      expect(charge).toEqual(clean);
    }
  });

  it("repeats a failed batch whole once, then halves it", () => {
    const first = retry(afterSetback(clean, { events: 9, lastOffset: 20 }, failed, chargeRules, half));
    expect(first).toMatchObject({ attempt: 1, charged: 0, width: null });
    const second = retry(afterSetback(first, { events: 9, lastOffset: 20 }, failed, chargeRules, half));
    expect(second).toMatchObject({ attempt: 2, charged: 0, width: 5, narrowThrough: 20 });
    expect(retry(afterSetback(second, { events: 5, lastOffset: 12 }, failed, chargeRules, half))).toMatchObject({
      width: 3,
      narrowThrough: 12,
    });
  });

  it("charges nobody for a kill among several, and halves at once after a kill alone", () => {
    const suspect = retry(afterSetback(clean, { events: 9, lastOffset: 20 }, killed(false), chargeRules, half));
    expect(suspect).toEqual({ ...clean, suspect: true });
    expect(retry(afterSetback(suspect, { events: 9, lastOffset: 20 }, killed(true), chargeRules, half))).toMatchObject({
      attempt: 1,
      width: 5,
      suspect: true,
    });
    expect(afterSuccess(suspect, 20)).toEqual(clean);
  });

  it("counts an event beyond the loop limit as done once it is alone, and charges nobody on the way", () => {
    const narrowing = afterSetback(clean, { events: 4, lastOffset: 4 }, failedWith("LOOP_LIMIT"), chargeRules, half);
    expect(narrowing).toMatchObject({ kind: "retry", delayMs: 0, charge: { attempt: 0, charged: 0, width: 2 } });
    expect(afterSetback(clean, { events: 1, lastOffset: 4 }, failedWith("LOOP_LIMIT"), chargeRules, half)).toEqual({
      kind: "skip",
    });
  });

  it("always finds the poison: whatever the batch, exactly the poisoned event pays and all others are delivered once", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 400 }), fc.nat(), fc.boolean(), (size, place, isKiller) => {
        const poison = (place % size) + 1;
        const seen = deliverAll(size, poison, isKiller ? killed(true) : failed);
        expect(seen.halted).toBe(poison);
        expect(seen.charged).toBe(15);
        expect(seen.delivered).toEqual(Array.from({ length: poison - 1 }, (_, index) => index + 1));
        // Two whole tries and a halving down to one, then fifteen failures; successes never exceed a halving's steps.
        expect(seen.attempts).toBeLessThanOrEqual(2 + 2 * Math.ceil(Math.log2(size + 1)) + 15 + 2);
      }),
    );
  });
});

function retry(verdict: Verdict): Charge {
  if (verdict.kind !== "retry") throw new Error(`expected a retry, got ${verdict.kind}`);
  return verdict.charge;
}

/** Events 1…size, one of which always fails: runs the line until it halts. */
function deliverAll(size: number, poison: number, setback: Setback) {
  const delivered: number[] = [];
  let charge = clean;
  let cursor = 0;
  for (let attempts = 1; attempts < 200; attempts += 1) {
    const events = Math.min(charge.width ?? size, size - cursor);
    const lastOffset = cursor + events;
    if (poison > lastOffset || poison <= cursor) {
      for (let offset = cursor + 1; offset <= lastOffset; offset += 1) delivered.push(offset);
      cursor = lastOffset;
      charge = afterSuccess(charge, cursor);
      continue;
    }
    const verdict = afterSetback(charge, { events, lastOffset }, setback, chargeRules, () => 0.5);
    if (verdict.kind === "halt")
      return { halted: verdict.alone ? lastOffset : null, charged: verdict.charge.charged, delivered, attempts };
    charge = retry(verdict);
  }
  throw new Error("the line neither halted nor ended");
}
