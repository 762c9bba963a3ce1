import { describe, expect, it } from "vitest";
import { assertContextPath, maxContextPathBytes, resolveContextPath } from "./context-path.js";

const longest = `/${"é".repeat((maxContextPathBytes - 2) / 2)}x`;

describe("assertContextPath", () => {
  it.each(["/", "/agents/a", "/repos/config", "/a b", "/日本", "/a.b", "/...", longest.slice(0, -1), longest])(
    "takes %j",
    (path) => {
      expect(() => assertContextPath(path)).not.toThrow();
    },
  );

  it.each([
    ["", "must start with '/'"],
    ["agents", "must start with '/'"],
    ["/a/", 'holds the segment ""'],
    ["//a", 'holds the segment ""'],
    ["/a/./b", 'holds the segment "."'],
    ["/a/..", 'holds the segment ".."'],
    ["/a\u0000", "control character"],
    ["/a\u007f", "control character"],
    ["/\ud800", "lone surrogate"],
    [`${longest}x`, "longer than 1024 bytes"],
  ])("refuses %j", (path, message) => {
    expect(() => assertContextPath(path)).toThrow(
      expect.objectContaining({ code: "INVALID_CONTEXT", message: expect.stringContaining(message) as string }),
    );
  });
});

describe("resolveContextPath", () => {
  it.each([
    ["/", "/", "/"],
    ["/a/b", "c", "/a/b/c"],
    ["/a/b", "./c/", "/a/b/c"],
    ["/a/b", "..", "/a"],
    ["/a/b", "../../../..", "/"],
    ["/a/b", "/c//d", "/c/d"],
    ["/a/b", "", "/a/b"],
    ["/a/b", ".", "/a/b"],
  ])("from %j to %j is %j", (base, path, expected) => {
    expect(resolveContextPath(base, path)).toBe(expected);
  });

  it("refuses what does not resolve to a path", () => {
    expect(() => resolveContextPath("/", "a\u0001")).toThrow(expect.objectContaining({ code: "INVALID_CONTEXT" }));
    expect(() => resolveContextPath("/", "a".repeat(maxContextPathBytes))).toThrow(/longer than/);
    expect(resolveContextPath("/", "a".repeat(maxContextPathBytes - 1))).toHaveLength(maxContextPathBytes);
  });
});
