import { expect, test } from "vitest";
import type { CoreState, SubscriptionRow } from "../core/contract.js";
import { initialCore } from "../core/fold.js";
import type { SubscriptionFloor } from "./contract.js";
import { decide, type Decision } from "./decide.js";

const row = (name: string, fields: Partial<SubscriptionRow> = {}): SubscriptionRow => ({
  name,
  target: ["itx"],
  consumes: [],
  afterOffset: 0,
  configuredAtOffset: 10,
  haltedAtOffset: null,
  resumedAtOffset: null,
  resumedAfterOffset: null,
  missedBelow: null,
  ...fields,
});
const floor = (name: string, offset: number, fields: Partial<SubscriptionFloor> = {}): SubscriptionFloor => ({
  name,
  configuredAt: 10,
  resumedAt: 0,
  floor: offset,
  ...fields,
});
const first = (firstOffset: number, ...undelivered: string[]): Decision => ({ firstOffset, undelivered });

test.for<[string, number, readonly SubscriptionRow[], readonly SubscriptionFloor[], readonly string[], Decision | null]>([
  ["without subscriptions the wish decides", 100, [], [], [], first(100)],
  ["a subscription below it holds", 100, [row("a")], [floor("a", 49)], [], first(50)],
  ["one that needs exactly the wished offset does not", 100, [row("a")], [floor("a", 99)], [], first(100)],
  ["one a step before does", 100, [row("a")], [floor("a", 98)], [], first(99)],
  ["one beyond does not", 100, [row("a")], [floor("a", 100)], [], first(100)],
  ["the lowest of several decides", 100, [row("a"), row("b")], [floor("a", 70), floor("b", 60)], [], first(61)],
  ["one that never reported holds everything", 100, [row("a"), row("b")], [floor("a", 99)], [], null],
  ["a report of an earlier row counts as none", 100, [row("a", { configuredAtOffset: 20 })], [floor("a", 99)], [], null],
  ["nor does one from before a resume count", 100, [row("a", { resumedAtOffset: 30 })], [floor("a", 99)], [], null],
  [
    "a report after the resume counts",
    100,
    [row("a", { resumedAtOffset: 30 })],
    [floor("a", 99, { resumedAt: 30 })],
    [],
    first(100),
  ],
  ["the floor of a removed subscription holds nothing", 100, [], [floor("gone", 5)], [], first(100)],
  ["an abandoned one is passed over, and named", 100, [row("a"), row("b")], [floor("a", 5), floor("b", 89)], ["a"], first(90, "a")],
  ["an abandoned one that misses nothing is not named", 100, [row("a")], [floor("a", 99)], ["a"], first(100)],
  ["what went before does not go again", 7, [], [], [], null],
  ["the next offset does", 8, [], [], [], first(8)],
])("%s", ([, wanted, rows, floors, abandoned, decision]) => {
  const core = {
    ...initialCore,
    subscriptions: Object.fromEntries(rows.map((each) => [each.name, each])),
    retention: { keepFrom: { offset: wanted }, configuredAtOffset: 3, firstOffset: 7 },
  };
  expect(decide({ core, wanted, floors, abandoned: new Set(abandoned) })).toEqual(decision);
});

test.for<[string, readonly number[], Decision | null]>([
  ["the oldest run that has not ended holds", [80, 50], first(50)],
  ["one that was asked for later does not", [100], first(100)],
  ["one that was asked for at once holds everything", [7], null],
])("%s", ([, open, decision]) => {
  const rows = open.map((at) => [at, { requestOffset: at, deadlineMs: 1, ancestor: null, limitKey: null }]);
  const core = {
    ...initialCore,
    runs: { incarnation: 0, open: Object.fromEntries(rows) as CoreState["runs"]["open"] },
    retention: { keepFrom: { offset: 100 }, configuredAtOffset: 3, firstOffset: 7 },
  };
  expect(decide({ core, wanted: 100, floors: [], abandoned: new Set() })).toEqual(decision);
});
