import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bucketOf, createIdGenerator, idPrefixes, newId, partitionOf, uuidv7, type IdPrefix } from "./ids.js";

describe("public ids", () => {
  test("have their prefix and 26 characters of lower-case Crockford base32", () => {
    for (const prefix of Object.keys(idPrefixes) as IdPrefix[]) {
      expect(newId(prefix)).toMatch(new RegExp(`^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$`));
    }
  });

  test("spell a known UUIDv7 as its known base32 text", () => {
    const fixed = createIdGenerator({ nowMs: () => 0x0192f7c1a2b3, fillRandom: (bytes) => bytes.fill(0xff) });
    expect(fixed.uuidv7()).toBe("0192f7c1-a2b3-77ff-bfff-ffffffffffff");
    const value = BigInt("0x0192f7c1a2b37800bfffffffffffffff");
    let expected = "";
    for (let shift = 125n; shift >= 0n; shift -= 5n) expected += "0123456789abcdefghjkmnpqrstvwxyz"[Number((value >> shift) & 31n)];
    expect(fixed.newId("run")).toBe(`run_${expected}`);
  });

  test("sort by the time they were minted, also within a millisecond and when the clock steps back", () => {
    let now = 1_700_000_000_000;
    const ids = createIdGenerator({
      nowMs: () => now,
      fillRandom: (bytes) => bytes.forEach((_, at) => (bytes[at] = Math.floor(Math.random() * 256))),
    });
    const minted: string[] = [];
    for (let i = 0; i < 30_000; i += 1) {
      if (i === 10_000) now -= 5_000;
      if (i === 20_000) now += 9_000;
      minted.push(ids.newId("run"));
    }
    expect([...minted].sort()).toEqual(minted);
    expect(new Set(minted).size).toBe(minted.length);
  });

  test("carry the version and variant of a UUIDv7", () => {
    for (let i = 0; i < 1000; i += 1)
      expect(uuidv7()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});

describe("placement", () => {
  test("is the first byte of SHA-256 over owner, a zero byte and path", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme" }), (owner, path) => {
        const digest = createHash("sha256").update(owner).update(Buffer.of(0)).update(path).digest();
        expect(partitionOf(owner, path)).toBe(digest[0]);
        expect(bucketOf(partitionOf(owner, path))).toBe(Math.floor(digest[0]! / 16));
      }),
    );
  });

  test("of known contexts never changes", () => {
    expect([partitionOf("global", "/"), partitionOf("prj_0", "/"), partitionOf("prj_0", "/chat/1")]).toMatchInlineSnapshot(`
      [
        252,
        46,
        65,
      ]
    `);
  });
});
