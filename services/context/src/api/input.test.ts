import { newId } from "@iterate-platform/service/ids";
import type { Caller } from "@iterate-platform/service/caller";
import { describe, expect, test } from "vitest";
import { addressOf, afterOffsetOf, countOf, plainAddress, typesOf } from "./input.js";
import { readLimits } from "../log/limits.js";

const project = newId("prj");
const ingress: Caller = { service: "ingress" };
const codeOf = (owner: string): Caller => ({
  service: "runner",
  execution: { owner, context: "/", code: "config@1", partition: 1, epoch: 1, cause: { chain: "c", depth: 0 }, scope: [], exp: 0 },
});

describe("limits of a read", () => {
  test.each([
    [-1, undefined],
    [0, 500],
    [1, 1],
    [999, 999],
    [1_000, 1_000],
    [1_001, undefined],
  ])("limit %i", (limit, taken) => {
    const count = (): number => countOf("limit", limit, readLimits.events, readLimits.defaultEvents);
    if (taken === undefined) expect(count).toThrow(/limit is -?\d+; it must be from 1 to 1000, or 0 for 500/);
    else expect(count()).toBe(taken);
  });

  test.each([
    [-1, undefined],
    [0, 30_000],
    [119_999, 119_999],
    [120_000, 120_000],
    [120_001, undefined],
  ])("timeout_ms %i", (timeoutMs, taken) => {
    const count = (): number => countOf("timeout_ms", timeoutMs, readLimits.waitMs, readLimits.defaultWaitMs);
    if (taken === undefined) expect(count).toThrow(/must be from 1 to 120000/);
    else expect(count()).toBe(taken);
  });

  test.each([
    [-1n, undefined],
    [0n, 0],
    [2n ** 53n - 2n, Number.MAX_SAFE_INTEGER - 1],
    [2n ** 53n - 1n, Number.MAX_SAFE_INTEGER],
    [2n ** 53n, undefined],
  ])("after_offset %i", (offset, taken) => {
    if (taken === undefined) expect(() => afterOffsetOf(offset)).toThrow(/must be from 0 to 2\^53 - 1/);
    else expect(afterOffsetOf(offset)).toBe(taken);
  });

  test.each([0, 1, 99, 100, 101])("%i types", (count) => {
    const types = Array.from({ length: count }, (_, at) => `test/${at}`);
    if (count > 100) expect(() => typesOf(types, 0)).toThrow(/holds 101 names/);
    else expect(typesOf(types, 0)).toBe(types);
    if (count === 0 || count > 100) expect(() => typesOf(types, 1)).toThrow(/must hold 1 to 100/);
    else expect(typesOf(types, 1)).toBe(types);
  });

  test.each([
    ["", false],
    ["t", true],
    ["€".repeat(85), true],
    [`${"€".repeat(85)}t`, true],
    [`${"€".repeat(85)}tt`, false],
    ["t\0", false],
  ])("a type named %j", (type, isTaken) => {
    if (isTaken) expect(typesOf([type], 1)).toEqual([type]);
    else expect(() => typesOf([type], 1)).toThrow(/types holds a name/);
  });
});

describe("the context a request names", () => {
  test.each([
    ["global", "/", true],
    [project, "/", true],
    [project, "/a/b c/€", true],
    [project, `/${"a".repeat(1_023)}`, true],
    [project, `/${"a".repeat(1_024)}`, false],
    ["", "/", false],
    ["prj_1", "/", false],
    [`${project}0`, "/", false],
    [project.toUpperCase(), "/", false],
    [project, "", false],
    [project, "a", false],
    [project, "/a/", false],
    [project, "/a/../b", false],
    [project, "/a\0", false],
  ])("%s %s", (owner, path, isTaken) => {
    if (isTaken) expect(addressOf({ owner, path }, ingress)).toEqual({ owner, path });
    else expect(() => plainAddress(owner, path)).toThrow(expect.objectContaining({ code: "INVALID_CONTEXT" }) as Error);
  });

  test("is refused when there is none, and to code of another project", () => {
    expect(() => addressOf(undefined, ingress)).toThrow(expect.objectContaining({ code: "INVALID_CONTEXT" }) as Error);
    expect(addressOf({ owner: project, path: "/x" }, codeOf(project))).toEqual({ owner: project, path: "/x" });
    expect(() => addressOf({ owner: newId("prj"), path: "/x" }, codeOf(project))).toThrow(
      expect.objectContaining({ code: "FORBIDDEN" }) as Error,
    );
    expect(() => addressOf({ owner: "global", path: "/x" }, codeOf(project))).toThrow(
      expect.objectContaining({ code: "FORBIDDEN" }) as Error,
    );
  });
});
