import { itx } from "iterate/events";
import { describe, expect, it } from "vitest";
import type { ControlEvent, RunsState } from "./contract.js";
import { initialCore } from "./fold.js";
import { oldestOpenRun, runs } from "./runs.js";

const requested = (offset: number, payload: Record<string, unknown> = {}): ControlEvent => ({
  offset,
  type: itx.runRequested.type,
  payload: { code: "1 + 1", ...payload },
});
const settled = (offset: number, requestOffset: number): ControlEvent => ({
  offset,
  type: itx.runSettled.type,
  payload: { requestOffset, settlement: { outcome: "succeeded" } },
});
const woken = (offset: number, incarnation: number): ControlEvent => ({
  offset,
  type: itx.woken.type,
  payload: { incarnation, cause: "take-over" },
});
const truncated = (offset: number, firstOffset: number): ControlEvent => ({
  offset,
  type: itx.logTruncated.type,
  payload: { firstOffset, decidedAtOffset: offset - 1, undelivered: [] },
});
const fold = (...events: ControlEvent[]): RunsState =>
  events.reduce((state, event) => runs.reduce(state, event, initialCore), runs.initial);
const row = (requestOffset: number, fields = {}) => ({
  requestOffset,
  deadlineMs: 600_000,
  ancestor: null,
  limitKey: null,
  ...fields,
});

describe("the fold", () => {
  it.each<[string, ControlEvent[], RunsState]>([
    ["keeps what was asked for", [requested(2)], { incarnation: 0, open: { 2: row(2) } }],
    [
      "keeps how long it may take, what it repeats and what it is counted by",
      [requested(2, { deadlineMs: 5, ancestor: { requestOffset: 1, kind: "fork" }, limitKey: "mail" })],
      { incarnation: 0, open: { 2: row(2, { deadlineMs: 5, ancestor: { requestOffset: 1, kind: "fork" }, limitKey: "mail" }) } },
    ],
    ["lets go what has ended", [requested(2), requested(3), settled(4, 2)], { incarnation: 0, open: { 3: row(3) } }],
    ["takes no second end", [requested(2), settled(3, 2), settled(4, 2)], { incarnation: 0, open: {} }],
    ["settles nothing by another incarnation alone", [requested(2), woken(3, 7)], { incarnation: 7, open: { 2: row(2) } }],
    ["takes no older incarnation", [woken(2, 7), woken(3, 6)], { incarnation: 7, open: {} }],
  ])("%s", (_what, events, state) => {
    expect(fold(...events)).toEqual(state);
  });

  it("says which request is the oldest open one", () => {
    expect(oldestOpenRun(fold())).toBeNull();
    expect(oldestOpenRun(fold(requested(11), requested(2), requested(3), settled(4, 2)))).toBe(3);
  });
});

describe("what a state says against an event", () => {
  const full = fold(...Array.from({ length: itx.runLimits.open }, (_, at) => requested(at + 1)));

  it.each<[string, RunsState, ControlEvent]>([
    [
      "the last run there is room for",
      fold(...Array.from({ length: itx.runLimits.open - 1 }, (_, at) => requested(at + 1))),
      requested(2_000),
    ],
    ["the end of an open run", fold(requested(2)), settled(3, 2)],
    ["a newer incarnation", fold(woken(2, 7)), woken(3, 8)],
    ["a truncation up to the oldest open run", fold(requested(5)), truncated(9, 5)],
    ["any truncation without one", fold(requested(5), settled(6, 5)), truncated(9, 8)],
  ])("nothing against %s", (_what, state, event) => {
    expect(() => runs.check!(state, event, initialCore)).not.toThrow();
  });

  it.each<[string, RunsState, ControlEvent, string]>([
    ["one run too many", full, requested(2_000), "INVALID_INPUT"],
    ["the end of a run that nobody asked for", fold(requested(2)), settled(4, 3), "OFFSET_CONFLICT"],
    ["the second end of a run", fold(requested(2), settled(3, 2)), settled(4, 2), "OFFSET_CONFLICT"],
    ["the same incarnation", fold(woken(2, 7)), woken(3, 7), "STALE_EPOCH"],
    ["a truncation past an open run", fold(requested(5)), truncated(9, 6), "OFFSET_CONFLICT"],
  ])("%s is refused", (_what, state, event, code) => {
    expect(() => runs.check!(state, event, initialCore)).toThrow(expect.objectContaining({ code }));
  });
});
