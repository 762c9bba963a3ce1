import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { appendKey } from "./append-key.js";

const origin = { subscription: "triage", path: "/a", offset: 7 };

describe("keys of appends made by code", () => {
  it("say who wrote what while handling what", () => {
    expect(appendKey(origin, "/b", { type: "note" })).toMatch(/^triage:\/a@7:append:\/b:[A-Za-z0-9_-]{43}$/);
  });

  it("are equal for equal bodies, however their members are ordered", () => {
    const one = appendKey(origin, "/b", { type: "note", payload: { x: 1, y: [{ a: 1, b: 2 }] } });
    expect(appendKey(origin, "/b", { type: "note", payload: { y: [{ b: 2, a: 1 }], x: 1 } })).toBe(one);
  });

  it.each([
    ["another event", { ...origin, offset: 8 }, "/b", { type: "note" }],
    ["another place", origin, "/c", { type: "note" }],
    ["another type", origin, "/b", { type: "other" }],
    ["a null payload", origin, "/b", { type: "note", payload: null }],
    ["metadata", origin, "/b", { type: "note", metadata: null }],
    ["a payload as metadata", origin, "/b", { type: "note", metadata: { x: 1 } }],
    ["another subscription", { ...origin, subscription: "other" }, "/b", { type: "note" }],
  ])("differ for %s", (_, from, where, event) => {
    expect(appendKey(from, where, event)).not.toBe(appendKey(origin, "/b", { type: "note" }));
  });

  it("always fit, and still differ, for the longest names and paths", () => {
    const long = (end: string) => `/${"p".repeat(1_023 - end.length)}${end}`;
    const key = (path: string, where: string) =>
      appendKey({ subscription: "s".repeat(128), path, offset: Number.MAX_SAFE_INTEGER }, where, { type: "note" });
    expect(Buffer.byteLength(key(long("a"), long("b")))).toBeLessThanOrEqual(512);
    expect(new Set([key(long("a"), long("b")), key(long("b"), long("a")), key(long("a"), long("a"))]).size).toBe(3);
    fc.assert(
      fc.property(
        fc.string({ minLength: 1, maxLength: 128, unit: "grapheme" }),
        (name) => Buffer.byteLength(appendKey({ ...origin, subscription: name.slice(0, 30) }, `/${name}`, { type: "t" })) <= 512,
      ),
    );
  });
});
