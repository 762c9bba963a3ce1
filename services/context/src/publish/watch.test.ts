import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { describe, expect, test } from "vitest";
import type { CommitHint } from "./contract.js";
import { maxRecentBytes } from "./recent-commits.js";
import { Watch } from "./watch.js";

const address = { owner: "prj_1", path: "/a" };
const event = (offset: number): Event => ({
  offset: BigInt(offset),
  type: "test/a",
  payload: undefined,
  metadata: undefined,
  idempotencyKey: "",
  createdAtUs: 0n,
  source: undefined,
  traceparent: "",
  formatVersion: 1,
  ephemeral: false,
});

/** Commit `commitNo` with the events from `firstOffset` to `lastOffset`. */
function commit(commitNo: number, firstOffset: number, lastOffset = firstOffset, change: Partial<CommitHint> = {}): CommitHint {
  const events = Array.from({ length: Math.max(0, lastOffset - firstOffset + 1) }, (_, at) => event(firstOffset + at));
  return {
    address,
    commitNo,
    firstOffset,
    lastOffset,
    reservedThrough: lastOffset,
    events,
    bytes: 100 * events.length,
    ...change,
  };
}

function watchAt(commitNo: number, lastOffset: number): Watch {
  const watch = new Watch();
  watch.confirm({ commitNo, lastOffset, reservedThrough: lastOffset }, undefined);
  return watch;
}

const offsets = (watch: Watch, position: number, maxEvents = 1_000): number[] | undefined =>
  watch.take(position, maxEvents)?.events.map(({ offset }) => Number(offset));
const never = new AbortController().signal;
const order = (watch: Watch, positions: readonly number[]): string[] => {
  const woken: string[] = [];
  positions.forEach((position, at) => void watch.whenAbove(position, undefined, never).then(() => woken.push(`${at}:${position}`)));
  return woken;
};

describe("a watch", () => {
  test("takes the next commit and no other", () => {
    const watch = watchAt(5, 10);
    expect(watch.hint(commit(6, 11, 12))).toBe(false);
    expect(watch.head).toMatchObject({ commitNo: 6, lastOffset: 12 });
    expect(offsets(watch, 10)).toEqual([11, 12]);
    for (const again of [commit(6, 11, 12), commit(5, 9, 10), commit(1, 1)]) expect(watch.hint(again)).toBe(false);
    expect(watch.head).toMatchObject({ commitNo: 6, lastOffset: 12 });
    expect(offsets(watch, 10)).toEqual([11, 12]);
  });

  test("asks for the truth over a gap, once for each news, and reads the log for what it missed", () => {
    const watch = watchAt(5, 10);
    expect(watch.hint(commit(8, 13))).toBe(true);
    expect(watch.hint(commit(8, 13))).toBe(false);
    expect(watch.hint(commit(7, 12))).toBe(false);
    expect(watch.head).toMatchObject({ commitNo: 5, lastOffset: 10 });
    expect(watch.confirm({ commitNo: 8, lastOffset: 13, reservedThrough: 13 }, watch.head)).toBe(false);
    expect(offsets(watch, 10)).toBeUndefined();
    watch.hint(commit(9, 14));
    expect(offsets(watch, 10)).toBeUndefined();
    expect(offsets(watch, 13)).toEqual([14]);
  });

  test("asks again when a hint was ahead of the truth it got, and then no more", () => {
    const watch = new Watch();
    expect(watch.hint(commit(6, 11))).toBe(true);
    expect(watch.confirm({ commitNo: 5, lastOffset: 10, reservedThrough: 10 }, undefined)).toBe(true);
    expect(watch.confirm({ commitNo: 5, lastOffset: 10, reservedThrough: 10 }, watch.head)).toBe(false);
  });

  test.each([
    ["whose offsets are not new", commit(6, 10, 11)],
    ["whose events lie outside its offsets", commit(6, 11, 11, { events: [event(12)] })],
    ["whose events are out of order", commit(6, 11, 12, { events: [event(12), event(11)] })],
    ["which says it holds all events and holds none", commit(6, 11, 12, { events: [] })],
    ["which holds an event its offsets have no room for", commit(6, 11, 10, { events: [event(11)] })],
  ])("believes no commit %s", (_, forged) => {
    const watch = watchAt(5, 10);
    expect(watch.hint(forged)).toBe(true);
    expect(watch.head).toMatchObject({ commitNo: 5, lastOffset: 10 });
  });

  test("goes back to the truth after it was told of a commit that does not exist", async () => {
    const watch = watchAt(5, 10);
    watch.hint(commit(6, 11, 99, { events: undefined }));
    const askedAt = watch.head;
    watch.confirm({ commitNo: 5, lastOffset: 10, reservedThrough: 10 }, askedAt);
    expect(watch.head).toMatchObject({ commitNo: 5, lastOffset: 10 });
    watch.hint(commit(6, 11));
    expect(offsets(watch, 10)).toEqual([11]);
  });

  test("does not go back for an answer that is merely older than a hint", () => {
    const watch = watchAt(5, 10);
    const askedAt = watch.head;
    watch.hint(commit(6, 11));
    watch.confirm({ commitNo: 5, lastOffset: 10, reservedThrough: 10 }, askedAt);
    expect(watch.head).toMatchObject({ commitNo: 6, lastOffset: 11 });
    expect(offsets(watch, 10)).toEqual([11]);
  });

  test("wakes who waits for a lower offset, in the order they came", async () => {
    const watch = watchAt(5, 10);
    const woken = order(watch, [10, 11, 10, 12, 3]);
    watch.hint(commit(6, 11));
    await Promise.resolve();
    await Promise.resolve();
    expect(woken).toEqual(["4:3", "0:10", "2:10"]);
  });

  test("is not woken by a commit without events", async () => {
    const watch = watchAt(5, 10);
    const woken = order(watch, [10]);
    expect(watch.hint(commit(6, 11, 10))).toBe(false);
    expect(watch.hint(commit(7, 2_000, 10))).toBe(false);
    await Promise.resolve();
    expect(woken).toEqual([]);
    expect(watch.head).toMatchObject({ commitNo: 7, lastOffset: 10 });
  });

  test("ends a wait with the reason of its signal and forgets it", async () => {
    const watch = watchAt(5, 10);
    const leaving = new AbortController();
    const wait = watch.whenAbove(10, undefined, leaving.signal);
    leaving.abort(new Error("left"));
    await expect(wait).rejects.toThrow("left");
    await expect(watch.whenAbove(10, undefined, leaving.signal)).rejects.toThrow("left");
  });
});

describe("recent commits", () => {
  test("are given from any position inside them, whole, as far as wanted", () => {
    const watch = watchAt(0, 0);
    watch.hint(commit(1, 1, 3));
    watch.hint(commit(2, 4, 4));
    watch.hint(commit(3, 1_030, 1_031));
    expect(offsets(watch, 0)).toEqual([1, 2, 3, 4, 1_030, 1_031]);
    expect(offsets(watch, 2)).toEqual([3, 4, 1_030, 1_031]);
    expect(offsets(watch, 4)).toEqual([1_030, 1_031]);
    expect(offsets(watch, 1_031)).toBeUndefined();
    expect(offsets(watch, 5_000)).toBeUndefined();
    expect(watch.take(0, 4)).toMatchObject({ through: 4 });
    expect(watch.take(0, 1)).toMatchObject({ through: 3 });
  });

  test("hold no more than their bytes: who is further behind reads the log", () => {
    const watch = watchAt(0, 0);
    const size = maxRecentBytes / 4;
    for (let at = 1; at <= 5; at += 1) watch.hint(commit(at, at, at, { bytes: size }));
    expect(watch.bytes).toBe(maxRecentBytes);
    expect(offsets(watch, 0)).toBeUndefined();
    expect(offsets(watch, 1)).toEqual([2, 3, 4, 5]);
    watch.hint(commit(6, 6, 6, { bytes: maxRecentBytes + 1 }));
    expect(watch.bytes).toBe(0);
    expect(offsets(watch, 5)).toBeUndefined();
    watch.hint(commit(7, 7, 7));
    expect(offsets(watch, 6)).toEqual([7]);
    watch.hint(commit(8, 8, 8, { events: undefined }));
    expect(offsets(watch, 7)).toBeUndefined();
  });
});
