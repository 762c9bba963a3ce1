import { describe, expect, it } from "vitest";
import { clean } from "./charge.js";
import type { DeliveryRow } from "./contract.js";
import { reconcile, type Subscribed } from "./reconcile.js";

const subscribed = (change: Partial<Subscribed> = {}): Subscribed => ({
  name: "triage",
  target: { kind: "facet", facet: "triage", module: "triage.ts", className: "Triage" },
  consumes: [],
  afterOffset: 3,
  configuredAt: 3,
  resumedAt: 0,
  resumedAfter: null,
  ...change,
});

const row = (change: Partial<DeliveryRow> = {}): DeliveryRow => ({
  id: 1,
  owner: "prj_a",
  path: "/",
  name: "triage",
  configuredAt: 3,
  host: "facet:triage",
  cursor: 20,
  caughtUp: true,
  status: "active",
  resumedAt: 0,
  charge: clean,
  dueInMs: null,
  behindThrough: null,
  reportsFloor: false,
  epoch: 1n,
  version: 4n,
  ...change,
});

describe("rows and subscriptions", () => {
  it("makes a row where the subscription starts", () => {
    expect(reconcile([], [subscribed()])).toEqual([
      { kind: "insert", row: { name: "triage", configuredAt: 3, host: "facet:triage", cursor: 3, resumedAt: 0 } },
    ]);
  });

  it("leaves a row alone that says the same, halted or not", () => {
    expect(reconcile([row()], [subscribed()])).toEqual([]);
    expect(reconcile([row({ status: "halted" })], [subscribed()])).toEqual([]);
  });

  it("[iterate-52] goes on at the cursor with the state when the same host is configured anew, and un-halts", () => {
    expect(reconcile([row({ status: "halted" })], [subscribed({ configuredAt: 30, afterOffset: 30 })])).toMatchObject([
      { kind: "reconfigure", next: { configuredAt: 30, cursor: 20, status: "active", keepsCheckpoint: true } },
    ]);
  });

  it("starts another host at the subscription's own place without state", () => {
    const target = { kind: "native", name: "publication" } as const;
    expect(reconcile([row()], [subscribed({ configuredAt: 30, afterOffset: 30, target })])).toMatchObject([
      { next: { host: "native:publication", cursor: 30, keepsCheckpoint: false } },
    ]);
  });

  it("keeps the state of a removed row for one of the same name", () => {
    expect(reconcile([row()], [])).toMatchObject([
      { kind: "reconfigure", next: { status: "removed", cursor: 20, keepsCheckpoint: true } },
    ]);
    expect(reconcile([row({ status: "removed" })], [])).toEqual([]);
    expect(reconcile([row({ status: "removed" })], [subscribed()])).toMatchObject([
      { next: { status: "active", cursor: 20, keepsCheckpoint: true } },
    ]);
  });

  it.each([
    ["continues at the cursor", null, 20, true],
    ["skips forward with the state", 25, 25, true],
    ["rewinds without the state", 5, 5, false],
  ] as const)("a resume %s", (_, resumedAfter, cursor, keepsCheckpoint) => {
    expect(reconcile([row({ status: "halted" })], [subscribed({ resumedAt: 40, resumedAfter })])).toMatchObject([
      { kind: "reconfigure", next: { status: "active", resumedAt: 40, cursor, keepsCheckpoint } },
    ]);
  });

  it("honours a resume once", () => {
    expect(reconcile([row({ resumedAt: 40 })], [subscribed({ resumedAt: 40, resumedAfter: 5 })])).toEqual([]);
  });
});
