import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { describe, expect, test } from "vitest";
import type { KnownHead, ToldEphemeral } from "./contract.js";
import { LiveEphemerals, maxAcceptedBytes, maxWaitingBytes } from "./live-ephemerals.js";
import { belongsTo, mergeEvents } from "./merge-events.js";

const event = (offset: number): Event => ({
  offset: BigInt(offset),
  type: "test/progress-frame",
  payload: undefined,
  metadata: undefined,
  idempotencyKey: "",
  createdAtUs: 0n,
  source: undefined,
  traceparent: "",
  formatVersion: 1,
  ephemeral: true,
});
const told = (commitNo: number, offset: number, after: number, bytes = 100): ToldEphemeral => ({
  event: event(offset),
  offset,
  after,
  commitNo,
  bytes,
});
const at = (commitNo: number, lastOffset: number, reservedThrough = lastOffset + 1_024): KnownHead => ({
  commitNo,
  lastOffset,
  reservedThrough,
});
const all = { scannedThrough: Number.MAX_SAFE_INTEGER, isAtHead: true };
const offsets = (live: LiveEphemerals, seen = 0, reach = all): number[] =>
  live.within(seen, reach).map(({ offset }) => Number(offset));

describe("an ephemeral event", () => {
  test("is accepted behind the commit it follows", () => {
    const live = new LiveEphemerals();
    expect(live.tell(told(5, 11, 10), at(5, 10))).toBe(true);
    expect(live.tell(told(5, 12, 10), at(5, 10))).toBe(true);
    expect(offsets(live)).toEqual([11, 12]);
    expect(live.newest).toBe(12);
  });

  test("is dropped once a later commit is known", () => {
    const live = new LiveEphemerals();
    expect(live.tell(told(5, 11, 10), at(6, 10))).toBe(false);
    expect(live.moved(at(6, 10), 10)).toBe(false);
    expect([offsets(live), live.dropped, live.bytes]).toEqual([[], 1, 0]);
  });

  test("waits for its commit, and is given when that is known", () => {
    const live = new LiveEphemerals();
    expect(live.tell(told(6, 12, 11), at(5, 10))).toBe(false);
    expect(live.tell(told(7, 14, 13), undefined)).toBe(false);
    expect(live.bytes).toBe(200);
    expect(live.moved(at(6, 11), 10)).toBe(true);
    expect(offsets(live)).toEqual([12]);
    expect(live.moved(at(8, 20), 11)).toBe(false);
    expect([offsets(live), live.dropped, live.bytes]).toEqual([[12], 1, 100]);
  });

  test("between the stored events of one commit is given with them, and not after them", () => {
    const live = new LiveEphemerals();
    live.tell(told(6, 12, 11), at(5, 10));
    expect(live.moved(at(6, 15), 10)).toBe(true);
    expect(live.tell(told(6, 12, 11), at(6, 15))).toBe(false);
    expect(live.tell(told(6, 14, 13), at(6, 15))).toBe(true);
    expect(live.tell(told(6, 9, 8), at(6, 15))).toBe(false);
    expect(offsets(live)).toEqual([12, 14]);
    expect(offsets(live, 15)).toEqual([]);
  });

  test.each([
    ["at an offset that was given", told(5, 11, 10)],
    ["at the offset of a stored event", told(5, 10, 9)],
    ["between stored events that are known", told(5, 9, 8)],
    ["behind another stored event than the last", told(5, 12, 9)],
    ["beyond what was reserved", told(5, 10 + 1_025, 10)],
  ])("%s is dropped", (_, lie) => {
    const live = new LiveEphemerals();
    live.tell(told(5, 11, 10), at(5, 10));
    expect(live.tell(lie, at(5, 10))).toBe(false);
    expect([offsets(live), live.dropped]).toEqual([[11], 1]);
  });

  test("of a commit that does not exist waits until the truth was asked for", () => {
    const live = new LiveEphemerals();
    live.tell(told(900, 12, 11), at(5, 10));
    live.confirmed(at(5, 10));
    expect(live.bytes).toBe(100);
    live.asked();
    live.tell(told(6, 12, 11), at(5, 10));
    live.confirmed(at(5, 10));
    expect([live.bytes, live.dropped]).toEqual([100, 1]);
    expect(live.moved(at(6, 11), 10)).toBe(true);
    expect(offsets(live)).toEqual([12]);
  });

  test("pushes out the oldest accepted, and finds no room beyond what may wait", () => {
    const live = new LiveEphemerals();
    const quarter = maxAcceptedBytes / 4;
    for (let n = 1; n <= 5; n += 1) live.tell(told(5, 10 + n, 10, quarter), at(5, 10));
    expect(offsets(live)).toEqual([12, 13, 14, 15]);
    live.tell(told(5, 16, 10, 2 * maxAcceptedBytes), at(5, 10));
    expect(offsets(live)).toEqual([16]);
    const waiting = new LiveEphemerals();
    waiting.tell(told(6, 12, 11, maxWaitingBytes), at(5, 10));
    waiting.tell(told(6, 13, 11, 1), at(5, 10));
    expect([waiting.bytes, waiting.dropped]).toEqual([maxWaitingBytes, 1]);
    waiting.forget();
    expect(waiting.bytes).toBe(0);
  });
});

test("who has nearly all is given the rest without a look at what is held", () => {
  const live = new LiveEphemerals();
  let looks = 0;
  for (let offset = 11; offset <= 4_010; offset += 1) {
    const counted = Object.defineProperty({ ...told(5, offset, 10) }, "offset", { get: () => (looks += 1) && offset });
    live.tell(counted, at(5, 10, 5_000));
  }
  looks = 0;
  expect(offsets(live, 4_008)).toEqual([4_009, 4_010]);
  expect(looks).toBeLessThan(50);
});

test.each([
  ["before the end of a page that was cut", 4, 3, 5, false, true],
  ["behind a page that was cut", 6, 5, 5, false, false],
  ["behind a page at the head", 6, 5, 5, true, true],
  ["behind a stored event that the page has not", 8, 7, 5, true, false],
  ["behind a page that begins beyond it", 6, 5, 9, true, true],
])("%s an event belongs to the page or not", (_, offset, after, scannedThrough, isAtHead, belongs) => {
  expect(belongsTo({ event: event(offset), offset, after, bytes: 1 }, { scannedThrough, isAtHead })).toBe(belongs);
});

test.each([
  [[], [], []],
  [[1, 3], [], [1, 3]],
  [[], [2, 4], [2, 4]],
  [
    [1, 3, 5],
    [2, 4, 6, 7],
    [1, 2, 3, 4, 5, 6, 7],
  ],
])("%j and %j merge to %j", (stored, ephemerals, merged) => {
  const events = mergeEvents(stored.map(event), ephemerals.map(event));
  expect(events.map(({ offset }) => Number(offset))).toEqual(merged);
});
