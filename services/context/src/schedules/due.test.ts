import { itx } from "iterate/events";
import { expect, test } from "vitest";
import type { ControlEvent, CoreState } from "../core/contract.js";
import { foldCore, initialCore } from "../core/fold.js";
import type { DueChange } from "./contract.js";
import { dueChanges } from "./due.js";

const at = "2030-01-01T00:00:00.000Z";
const event = (offset: number, { type }: { readonly type: string }, payload: unknown): ControlEvent => ({ offset, type, payload });
const set = (offset: number, key: string, when: unknown) =>
  event(offset, itx.scheduleSet, { key, when, events: [{ type: "a/b" }] });
const folded = (...events: readonly ControlEvent[]): CoreState => events.reduce(foldCore, initialCore);
const held = folded(set(2, "a", { everyMs: 1_000 }), set(3, "b", { at }));
const paused = event(4, itx.paused, {});

test.for<[string, CoreState, ControlEvent[], DueChange[]]>([
  ["a commit that schedules nothing", held, [event(4, itx.subscriptionConfigured, { name: "x", target: ["itx"] })], []],
  [
    "a delay counts from the commit",
    held,
    [set(4, "c", { afterMs: 7 })],
    [{ key: "c", row: { scheduledAtOffset: 4, due: { kind: "after", afterMs: 7 } } }],
  ],
  [
    "a time does not",
    held,
    [set(4, "c", { at })],
    [{ key: "c", row: { scheduledAtOffset: 4, due: { kind: "at", atMs: Date.parse(at) } } }],
  ],
  [
    "a clock that is kept is looked up",
    held,
    [set(4, "a", { everyMs: 1_000 })],
    [{ key: "a", row: { scheduledAtOffset: 4, due: { kind: "after", afterMs: 0 } } }],
  ],
  [
    "a pattern is looked up",
    held,
    [set(4, "c", { cron: "* * * * *", timeZone: "UTC" })],
    [{ key: "c", row: { scheduledAtOffset: 4, due: { kind: "after", afterMs: 0 } } }],
  ],
  ["a cancel", held, [event(4, itx.scheduleCancelled, { key: "a" })], [{ key: "a", row: null }]],
  ["set and cancelled in one commit", held, [set(4, "c", { at }), event(5, itx.scheduleCancelled, { key: "c" })], []],
  [
    "a firing",
    held,
    [event(4, itx.scheduleFired, { key: "a", scheduledAtOffset: 2, at, nextAt: at })],
    [{ key: "a", row: { scheduledAtOffset: 2, due: { kind: "at", atMs: Date.parse(at) } } }],
  ],
  ["a failure", held, [event(4, itx.scheduleFailed, { key: "a", scheduledAtOffset: 2, error: "no" })], [{ key: "a", row: null }]],
  [
    "a pause holds all",
    held,
    [paused],
    [
      { key: "a", row: { scheduledAtOffset: 2, due: { kind: "held" } } },
      { key: "b", row: { scheduledAtOffset: 3, due: { kind: "held" } } },
    ],
  ],
  [
    "a resume releases all",
    foldCore(held, paused),
    [event(5, itx.resumed, {})],
    [
      { key: "a", row: { scheduledAtOffset: 2, due: { kind: "after", afterMs: 0 } } },
      { key: "b", row: { scheduledAtOffset: 3, due: { kind: "at", atMs: Date.parse(at) } } },
    ],
  ],
])("%s changes the due rows so", ([, before, events, changes]) => {
  expect(dueChanges(before, events.reduce(foldCore, before), events[0]!.offset)).toEqual(changes);
});
