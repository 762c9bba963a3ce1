import { describe, expect, it } from "vitest";
import type { ScheduleRow, SubscriptionRow } from "../core/contract.js";
import type { DeliveryFacts, RunnerHalf } from "./contract.js";
import { pauseReason, runReason, scheduleReason, subscriptionReason, takes, type Owed } from "./reasons.js";

const row = (fields: Partial<SubscriptionRow> = {}): SubscriptionRow => ({
  name: "counter",
  target: ["itx", ["processor", "facet:counter"]],
  consumes: [],
  afterOffset: 0,
  configuredAtOffset: 10,
  haltedAtOffset: null,
  resumedAtOffset: null,
  resumedAfterOffset: null,
  missedBelow: null,
  ...fields,
});
const facts = (fields: Partial<DeliveryFacts> = {}): DeliveryFacts => ({
  name: "counter",
  status: "active",
  configuredAtOffset: 10,
  cursor: 20,
  attempts: 0,
  dueAtMs: null,
  error: null,
  isSuspect: false,
  ...fields,
});
const half = (
  fields: Partial<DeliveryFacts> | null = {},
  lease: RunnerHalf["lease"] = { pod: "runner-1", epoch: 7 },
): RunnerHalf => ({
  lease,
  deliveries: fields === null ? [] : [facts(fields)],
  runs: [],
});
const error = { code: "CODE_FAILED", message: "no" };
const owed: Owed = { through: 30, isOwed: true };

describe("why a subscription has, or has not, been delivered", () => {
  it.each<[string, SubscriptionRow, RunnerHalf | null, Owed, object]>([
    ["one that is beyond", row(), half({ cursor: 30 }), owed, { kind: "done", cursor: 30 }],
    ["one that is behind", row(), half({ cursor: 29 }), owed, { kind: "waiting", cursor: 29, owner: "runner-1", epoch: 7 }],
    ["one that has nothing to take", row(), half(), { through: 30, isOwed: false }, { kind: "done", cursor: 20 }],
    ["one of which that is not known", row(), half(), { through: 30, isOwed: null }, { kind: "waiting" }],
    [
      "one that failed",
      row(),
      half({ status: "retrying", attempts: 3, dueAtMs: 5, error }),
      owed,
      { kind: "retrying", attempts: 3, dueAtMs: 5, error, sentence: expect.stringContaining("CODE_FAILED: no") as string },
    ],
    [
      "one that killed its process",
      row(),
      half({ status: "retrying", isSuspect: true }),
      owed,
      { sentence: expect.stringContaining("alone") as string },
    ],
    [
      "one that is halted",
      row({ haltedAtOffset: 25 }),
      half({ status: "halted", error }),
      owed,
      { kind: "halted", error, cursor: 20 },
    ],
    [
      "one that missed events",
      row({ haltedAtOffset: 25, missedBelow: 22 }),
      half({ status: "halted" }),
      owed,
      { sentence: expect.stringContaining("with afterOffset 21 or later") as string },
    ],
    ["one that is halted, of a runner that is away", row({ haltedAtOffset: 25 }), null, owed, { kind: "halted" }],
    [
      "one without a target",
      row(),
      half({ status: "dangling" }),
      owed,
      { kind: "dangling", sentence: expect.stringContaining("facet:counter") as string },
    ],
    ["one that the runner has not seen", row(), half(null), owed, { kind: "not-taken-up" }],
    ["one that was configured anew", row({ configuredAtOffset: 28 }), half({ cursor: 30 }), owed, { kind: "not-taken-up" }],
    ["one of a partition that nobody holds", row(), half({}, null), owed, { kind: "no-owner" }],
    ["a new one of such a partition", row(), half(null, null), owed, { kind: "no-owner" }],
    ["one that was delivered before nobody held it", row(), half({ cursor: 30 }, null), owed, { kind: "done" }],
    ["one of a runner that is away", row(), null, owed, { kind: "unknown" }],
  ])("%s", (_what, subscription, known, asked, reason) => {
    expect(subscriptionReason(subscription, known, asked)).toMatchObject({ subject: 'subscription "counter"', ...reason });
  });

  it.each<[SubscriptionRow, number, string, boolean]>([
    [row(), 1, "a", true],
    [row({ afterOffset: 5 }), 5, "a", false],
    [row({ afterOffset: 5 }), 6, "a", true],
    [row({ consumes: ["b"] }), 1, "a", false],
    [row({ consumes: ["a", "b"] }), 1, "a", true],
    [row({ consumes: ["*"] }), 1, "a", true],
  ])("%# takes the events it is for", (subscription, offset, type, isTaken) => {
    expect(takes(subscription, { offset, type })).toBe(isTaken);
  });
});

describe("why a schedule has not fired", () => {
  const schedule: ScheduleRow = {
    key: "daily",
    scheduledAtOffset: 3,
    when: { everyMs: 60_000 },
    bytes: 1,
    since: 3,
    nextAtMs: null,
    failedAtOffset: null,
  };
  it.each<[string, Partial<ScheduleRow>, number | null, object]>([
    ["its time has not come", {}, 2_000, { kind: "not-due", dueAtMs: 2_000, sentence: "it is due at 1970-01-01T00:00:02.000Z" }],
    ["its time has come", {}, 1_000, { kind: "waiting" }],
    ["it was refused", { failedAtOffset: 9 }, 2_000, { kind: "halted", sentence: expect.stringContaining("offset 9") as string }],
    ["nobody can say when", {}, null, { kind: "unknown" }],
  ])("%s", (_what, fields, dueAtMs, reason) => {
    expect(scheduleReason({ ...schedule, ...fields }, dueAtMs, 1_000)).toMatchObject({ subject: 'schedule "daily"', ...reason });
  });
});

describe("why a run has not ended", () => {
  it.each<[string, RunnerHalf | null, object]>([
    [
      "it was taken up",
      { ...half(), runs: [{ requestOffset: 5, epoch: 7, dueAtMs: 9_000 }] },
      { kind: "waiting", dueAtMs: 9_000, epoch: 7 },
    ],
    ["it was not taken up", half(), { kind: "not-taken-up", owner: "runner-1" }],
    ["nobody is there to take it up", half({}, null), { kind: "no-owner" }],
    ["nobody says", null, { kind: "unknown" }],
  ])("%s", (_what, known, reason) => {
    expect(runReason(5, known)).toMatchObject({ subject: "run 5", ...reason });
  });
});

it("says of a pause where it began and why", () => {
  expect(pauseReason(null, "x")).toBeNull();
  expect(pauseReason({ reason: "full", pausedAtOffset: 4 }, "schedules wait")).toMatchObject({
    kind: "paused",
    sentence: "the context has been paused since offset 4 (full): schedules wait until itx/resumed",
  });
});
