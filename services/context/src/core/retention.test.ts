import { itx } from "iterate/events";
import { expect, test } from "vitest";
import type { ControlEvent, CoreState } from "./contract.js";
import { checkAgainstCore, coreFromRows, foldCore, initialCore } from "./fold.js";
import { isTruncated } from "./retention.js";

const target = ["itx", "builtins", "processors", ["get", "a"]];
const event = (offset: number, type: string, payload: unknown): ControlEvent => ({ offset, type, payload });
const configured = (offset: number, keepFrom: unknown) => event(offset, itx.retentionConfigured.type, { keepFrom });
const truncated = (offset: number, firstOffset: number, decidedAtOffset = offset - 1, undelivered: readonly string[] = []) =>
  event(offset, itx.logTruncated.type, { firstOffset, decidedAtOffset, undelivered });
const subscribed = (offset: number, afterOffset?: number) =>
  event(offset, itx.subscriptionConfigured.type, { name: "a", target, afterOffset });
const resumed = (offset: number, afterOffset?: number) =>
  event(offset, itx.subscriptionDeliveryResumed.type, { name: "a", afterOffset });
const halted = (offset: number) => event(offset, itx.subscriptionDeliveryHalted.type, { name: "a" });

const folded = (...events: readonly ControlEvent[]): CoreState => events.reduce(foldCore, initialCore);

/** The code an event is refused with, or `lands`. */
function verdict(core: CoreState, next: ControlEvent): string {
  try {
    checkAgainstCore(core, next);
    return "lands";
  } catch (error) {
    return (error as { code: string }).code;
  }
}

test.for<[string, readonly ControlEvent[], CoreState["retention"]]>([
  ["nothing said", [], null],
  ["a wish", [configured(4, { offset: 3 })], { keepFrom: { offset: 3 }, configuredAtOffset: 4, firstOffset: 1 }],
  [
    "a later wish replaces an earlier one",
    [configured(4, { offset: 3 }), configured(9, null)],
    { keepFrom: null, configuredAtOffset: 9, firstOffset: 1 },
  ],
  [
    "a wish keeps what was given up",
    [truncated(9, 5), configured(10, { maxAgeMs: 60_000 })],
    { keepFrom: { maxAgeMs: 60_000 }, configuredAtOffset: 10, firstOffset: 5 },
  ],
  ["the log never grows backward", [truncated(9, 5), truncated(10, 4)], { keepFrom: null, configuredAtOffset: 0, firstOffset: 5 }],
])("retention folds: %s", ([, events, state]) => {
  expect(folded(...events).retention).toEqual(state);
});

test.for<[string, CoreState, ControlEvent, string]>([
  ["a first truncation", folded(configured(4, { offset: 3 })), truncated(9, 3), "lands"],
  ["one that gives nothing up", folded(truncated(9, 5)), truncated(12, 5), "OFFSET_CONFLICT"],
  ["one that goes on by one", folded(truncated(9, 5)), truncated(12, 6), "lands"],
  ["one through the event before itself", folded(), truncated(9, 9), "lands"],
  ["one over itself", folded(), truncated(9, 10), "OFFSET_CONFLICT"],
  ["one decided before a newer wish", folded(configured(8, null)), truncated(9, 3, 7), "OFFSET_CONFLICT"],
  ["one decided with that wish", folded(configured(8, { offset: 3 })), truncated(9, 3, 8), "lands"],
  ["one decided before a newer subscription", folded(subscribed(8, 0)), truncated(9, 3, 7), "OFFSET_CONFLICT"],
  ["one decided with that subscription", folded(subscribed(8, 0)), truncated(9, 3, 8), "lands"],
  ["one decided before a seek", folded(subscribed(2), resumed(8, 2)), truncated(9, 3, 7), "OFFSET_CONFLICT"],
  ["one decided with that seek", folded(subscribed(2), resumed(8, 2)), truncated(9, 3, 8), "lands"],
])("a truncation is judged: %s", ([, core, next, code]) => {
  expect(verdict(core, next)).toBe(code);
});

// The log begins at 100: the place before it is 99.
const short = folded(truncated(120, 100), subscribed(130));
test.for<[string, ControlEvent, string]>([
  ["a subscription from below", subscribed(140, 98), "OFFSET_TRUNCATED"],
  ["a subscription from the first event", subscribed(140, 99), "lands"],
  ["a subscription from above", subscribed(140, 100), "lands"],
  ["a subscription from the start", subscribed(140, 0), "lands"],
  ["a subscription from now", subscribed(140), "lands"],
  ["a seek to below", resumed(140, 98), "OFFSET_TRUNCATED"],
  ["a seek to the first event", resumed(140, 99), "lands"],
  ["a seek to the start", resumed(140, 0), "lands"],
  ["a resume at the cursor", resumed(140), "lands"],
])("a log that begins at 100 judges %s", ([, next, code]) => {
  expect(verdict(short, next)).toBe(code);
});

test("a subscription that missed events goes on from a place alone", () => {
  const missed = folded(subscribed(2), halted(10), truncated(120, 100, 119, ["a", "unknown"]));
  expect(missed.subscriptions["a"]).toMatchObject({ haltedAtOffset: 10, missedBelow: 100 });
  expect(verdict(missed, resumed(130))).toBe("OFFSET_TRUNCATED");
  expect(verdict(missed, resumed(130, 99))).toBe("lands");
  expect(foldCore(missed, resumed(130, 99)).subscriptions["a"]).toMatchObject({ missedBelow: null, haltedAtOffset: null });
});

test("rows hold what was folded", () => {
  const core = folded(configured(4, { offset: 3 }), truncated(9, 3));
  const rows = [{ concern: "retention", asOf: 9, state: JSON.stringify(core.retention) }];
  expect(coreFromRows(rows)).toEqual({ core, asOf: 9 });
});

test.for([
  [0, 100, false],
  [98, 100, true],
  [99, 100, false],
  [100, 100, false],
  [0, 1, false],
  [1, 1, false],
] as const)("after %i of a log that begins at %i: gone is %s", ([after, first, gone]) => {
  expect(isTruncated(after, first)).toBe(gone);
});
