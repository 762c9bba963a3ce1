import type { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { beforeEach, expect, test } from "vitest";
import { EphemeralRings, ringBytes, ringIdleMs } from "./ephemeral-rings.js";
import type { KeptEphemeral } from "./contract.js";

let nowMs: number;
let kept: Set<string>;
let rings: EphemeralRings;
beforeEach(() => {
  nowMs = 0;
  kept = new Set();
  rings = new EphemeralRings({
    nowMs: () => nowMs,
    onKept: ({ path }) => {
      kept.add(path);
      return () => kept.delete(path);
    },
    maxBytes: 3 * ringBytes,
    maxContexts: 4,
  });
});

const at = (path: string) => ({ owner: "prj_1", path });
const one = (offset: number, bytes: number): KeptEphemeral => ({ event: {} as Event, offset, after: 0, bytes });
const offsets = (path: string): number[] | undefined => rings.of(at(path))?.map(({ offset }) => offset);

test("a ring keeps the newest megabyte, to the byte", () => {
  rings.add(at("/a"), [one(1, 1), one(2, ringBytes - 1)]);
  expect(offsets("/a")).toEqual([1, 2]);
  rings.add(at("/a"), [one(3, 1)]);
  expect(offsets("/a")).toEqual([2, 3]);
  rings.add(at("/a"), [one(4, ringBytes), one(5, ringBytes + 1)]);
  expect(offsets("/a")).toEqual([5]);
  expect(rings.counts).toEqual({ contexts: 1, bytes: ringBytes + 1 });
});

test("contexts that got nothing for the longest time go when all together are too many, never the one that got something", () => {
  for (const path of ["/a", "/b", "/c"]) rings.add(at(path), [one(1, ringBytes)]);
  rings.add(at("/a"), [one(2, ringBytes)]);
  rings.add(at("/d"), [one(1, 1)]);
  expect([...kept]).toEqual(["/a", "/c", "/d"]);
  rings.add(at("/d"), [one(2, 8 * ringBytes)]);
  expect([...kept]).toEqual(["/d"]);
  expect(offsets("/d")).toEqual([2]);
  expect(offsets("/a")).toBeUndefined();
});

test("so do they when they are too many, however little they hold", () => {
  for (const path of ["/a", "/b", "/c", "/d"]) rings.add(at(path), [one(1, 1)]);
  expect(kept.size).toBe(4);
  rings.add(at("/a"), [one(2, 1)]);
  rings.add(at("/e"), [one(1, 1)]);
  expect([...kept]).toEqual(["/a", "/c", "/d", "/e"]);
  expect(rings.counts).toEqual({ contexts: 4, bytes: 5 });
});

test("a context without a new event for a minute goes", () => {
  rings.add(at("/a"), [one(1, 1)]);
  nowMs = 1_000;
  rings.add(at("/b"), [one(1, 1)]);
  nowMs = ringIdleMs;
  rings.sweep();
  expect([...kept]).toEqual(["/b"]);
  rings.clear();
  expect([kept.size, rings.counts]).toEqual([0, { contexts: 0, bytes: 0 }]);
});
