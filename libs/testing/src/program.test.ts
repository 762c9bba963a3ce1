import { afterEach, expect, test, vi } from "vitest";
import { findProgram, hasPrograms } from "./program.js";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

test("a program is found in PATH", () => {
  expect(findProgram("sh")).toMatch(/\/sh$/);
  expect(findProgram("no-such-program")).toBeUndefined();
});

test("a suite without its program is skipped and says which is missing", () => {
  vi.stubEnv("REQUIRE_ALL", "");
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  expect(hasPrograms("sh", "no-such-program")).toBe(false);
  expect(write).toHaveBeenCalledWith(expect.stringContaining("not installed: no-such-program"));
  expect(hasPrograms("sh")).toBe(true);
});

test("with REQUIRE_ALL=1 it fails instead", () => {
  vi.stubEnv("REQUIRE_ALL", "1");
  expect(() => hasPrograms("no-such-program")).toThrow(/not installed: no-such-program/);
  expect(hasPrograms("sh")).toBe(true);
});
