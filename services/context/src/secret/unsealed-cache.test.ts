import { expect, test } from "vitest";
import { UnsealedCache } from "./unsealed-cache.js";

const cacheAt = (clock: { ms: number }, maxEntries = 2): UnsealedCache =>
  new UnsealedCache({ maxEntries, ttlMs: 60_000, nowMs: () => clock.ms });

test("answers a secret for the fact that set it alone", () => {
  const cache = cacheAt({ ms: 0 });
  cache.set("a", 3, Buffer.from("old"));
  expect(cache.get("a", 3)?.toString()).toBe("old");
  expect(cache.get("a", 4)).toBeUndefined();
  expect(cache.size).toBe(0);
});

test("forgets at 60 s, and overwrites the bytes it forgets", () => {
  const clock = { ms: 0 };
  const cache = cacheAt(clock);
  const material = Buffer.from("secret");
  cache.set("a", 1, material);
  clock.ms = 59_999;
  expect(cache.get("a", 1)).toBe(material);
  clock.ms = 60_000;
  cache.sweep();
  expect(cache.size).toBe(0);
  expect(material.every((byte) => byte === 0)).toBe(true);
});

test("holds at most its number, dropping the one used longest ago", () => {
  const cache = cacheAt({ ms: 0 });
  cache.set("a", 1, Buffer.from("a"));
  cache.set("b", 1, Buffer.from("b"));
  cache.get("a", 1);
  cache.set("c", 1, Buffer.from("c"));
  expect(["a", "b", "c"].map((key) => cache.get(key, 1)?.toString())).toEqual(["a", undefined, "c"]);
});
