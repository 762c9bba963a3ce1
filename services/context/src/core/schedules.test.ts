import { itx } from "iterate/events";
import { expect, test } from "vitest";
import type { ControlEvent, CoreState } from "./contract.js";
import { checkAgainstCore, foldCore, initialCore } from "./fold.js";

const { scheduleLimits } = itx;
const at = "2030-01-01T00:00:00.000Z";
const later = "2030-01-01T00:01:00.000Z";
const atMs = Date.parse(at);

const set = (
  offset: number,
  key: string,
  when: unknown = { everyMs: 60_000 },
  events: unknown = [{ type: "a/b" }],
): ControlEvent => ({
  offset,
  type: itx.scheduleSet.type,
  payload: { key, when, events },
});
const cancelled = (offset: number, key: string, ifScheduledAtOffset?: number): ControlEvent => ({
  offset,
  type: itx.scheduleCancelled.type,
  payload: { key, ...(ifScheduledAtOffset === undefined ? {} : { ifScheduledAtOffset }) },
});
const fired = (
  offset: number,
  key: string,
  scheduledAtOffset: number,
  fields: { at?: string; since?: string; nextAt?: string | null } = {},
): ControlEvent => ({
  offset,
  type: itx.scheduleFired.type,
  payload: { key, scheduledAtOffset, at, nextAt: later, ...fields },
});
const failed = (offset: number, key: string, scheduledAtOffset: number, dueAt?: string): ControlEvent => ({
  offset,
  type: itx.scheduleFailed.type,
  payload: { key, scheduledAtOffset, error: "no", ...(dueAt === undefined ? {} : { at: dueAt }) },
});
const folded = (...events: readonly ControlEvent[]): CoreState => events.reduce(foldCore, initialCore);
const codeOf = (core: CoreState, event: ControlEvent): string | undefined => {
  try {
    checkAgainstCore(core, event);
    return undefined;
  } catch (error) {
    return (error as { code: string }).code;
  }
};

test.for<[string, ControlEvent[], Record<string, object>]>([
  ["a delay is counted from its event", [set(2, "a", { afterMs: 5 })], { a: { scheduledAtOffset: 2, since: 2, nextAtMs: null } }],
  ["a time is what it is", [set(2, "a", { at })], { a: { nextAtMs: atMs } }],
  [
    "a key set again is replaced",
    [set(2, "a", { afterMs: 5 }), set(3, "a", { at })],
    { a: { scheduledAtOffset: 3, since: 3, nextAtMs: atMs } },
  ],
  ["the same interval keeps its clock", [set(2, "a"), set(3, "a")], { a: { scheduledAtOffset: 3, since: 2, nextAtMs: null } }],
  [
    "also once it has fired",
    [set(2, "a"), fired(4, "a", 2), set(5, "a")],
    { a: { scheduledAtOffset: 5, nextAtMs: Date.parse(later) } },
  ],
  [
    "another interval starts anew",
    [set(2, "a"), fired(4, "a", 2), set(5, "a", { everyMs: 61_000 })],
    { a: { since: 5, nextAtMs: null } },
  ],
  ["so does one that failed", [set(2, "a"), failed(4, "a", 2), set(5, "a")], { a: { since: 5, failedAtOffset: null } }],
  ["the last firing removes it", [set(2, "a", { at }), fired(4, "a", 2, { nextAt: null })], {}],
  ["a refused firing lets it rest", [set(2, "a"), failed(3, "a", 2)], { a: { failedAtOffset: 3 } }],
  ["a cancel removes it", [set(2, "a"), cancelled(3, "a")], {}],
  ["by its receipt too", [set(2, "a"), cancelled(3, "a", 2)], {}],
  ["a stale receipt does not", [set(2, "a"), set(3, "a"), cancelled(4, "a", 2)], { a: { scheduledAtOffset: 3 } }],
  ["nor does the name of nothing", [set(2, "a"), cancelled(3, "toString")], { a: { scheduledAtOffset: 2 } }],
  [
    "facts of a replaced definition change nothing",
    [set(2, "a"), set(3, "a"), fired(4, "a", 2), failed(5, "a", 2)],
    { a: { scheduledAtOffset: 3, nextAtMs: null, failedAtOffset: null } },
  ],
  ["keys are in order, whatever they are", [set(2, "b"), set(3, "__proto__"), set(4, "a")], { a: {}, b: {}, ["__proto__"]: {} }],
])("%s", ([, events, rows]) => {
  const { schedules } = folded(...events);
  expect(Object.keys(schedules).sort()).toEqual(Object.keys(rows).sort());
  for (const [key, fields] of Object.entries(rows)) expect(schedules[key]).toMatchObject(fields);
});

test("what changes nothing is the same state", () => {
  const core = folded(set(2, "a"));
  for (const event of [cancelled(3, "b"), cancelled(3, "a", 1), fired(3, "a", 1), failed(3, "b", 2)])
    expect(foldCore(core, event)).toBe(core);
});

const firing = folded(set(2, "a"), fired(3, "a", 2));
test.for<[string, CoreState, ControlEvent, string | undefined]>([
  ["the first occurrence may be fired", folded(set(2, "a")), fired(3, "a", 2), undefined],
  ["the next may", firing, fired(4, "a", 2, { at: later }), undefined],
  ["one after those that were skipped may", firing, fired(4, "a", 2, { at: "2030-01-01T00:05:00.000Z", since: later }), undefined],
  ["one that was fired may not", firing, fired(4, "a", 2), "OFFSET_CONFLICT"],
  ["one of a replaced definition may not", folded(set(2, "a"), set(3, "a")), fired(4, "a", 2), "OFFSET_CONFLICT"],
  ["one of a cancelled may not", folded(set(2, "a"), cancelled(3, "a")), fired(4, "a", 2), "OFFSET_CONFLICT"],
  ["one at rest may not", folded(set(2, "a"), failed(3, "a", 2)), fired(4, "a", 2), "OFFSET_CONFLICT"],
  ["one that was fired is not refused afterwards", firing, failed(4, "a", 2, at), "OFFSET_CONFLICT"],
  ["the next one can be", firing, failed(4, "a", 2, later), undefined],
])("%s", ([, core, event, code]) => expect(codeOf(core, event)).toBe(code));

test("a context holds so many schedules, and a replaced one does not count twice", () => {
  const full = folded(...Array.from({ length: scheduleLimits.perContext }, (_, n) => set(n + 2, `s${n}`)));
  const { s0: _, ...rest } = full.schedules;
  expect(codeOf({ ...full, schedules: rest }, set(200, "new"))).toBeUndefined();
  expect(codeOf(full, set(200, "s7"))).toBeUndefined();
  expect(codeOf(full, set(200, "new"))).toBe("SCHEDULE_LIMIT");
});

test.for([-1, 0, 1])("a context holds so many bytes of scheduled events (%i)", (beyond) => {
  const sized = (bytes: number) => [{ type: "a/b", payload: "x".repeat(bytes - '[{"type":"a/b","payload":""}]'.length) }];
  const half = folded(set(2, "a", { everyMs: 1_000 }, sized(scheduleLimits.bytesPerContext / 2)));
  const next = set(3, "b", { everyMs: 1_000 }, sized(scheduleLimits.bytesPerContext / 2 + beyond));
  expect(codeOf(half, next)).toBe(beyond > 0 ? "SCHEDULE_LIMIT" : undefined);
});
