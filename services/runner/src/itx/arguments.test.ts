import { describe, expect, it } from "vitest";
import { eventInputs, facetName, none, readArgs, waitArgs, waitUntilArgs } from "./arguments.js";

const codeOf = (work: () => unknown): string => {
  try {
    work();
    return "OK";
  } catch (error) {
    return (error as { code: string }).code;
  }
};
const text = (bytes: number) => "x".repeat(bytes);

describe("the arguments of append", () => {
  it.each([
    ["no event", [], "OK"],
    ["1,000 events", Array.from({ length: 1_000 }, () => ({ type: "a" })), "OK"],
    ["1,001 events", Array.from({ length: 1_001 }, () => ({ type: "a" })), "BATCH_TOO_LARGE"],
    ["a type of 256 bytes", [{ type: text(256) }], "OK"],
    ["a type of 257 bytes", [{ type: text(257) }], "INVALID_INPUT"],
    ["a type of 257 bytes in 129 characters", [{ type: "é".repeat(128) + "x" }], "INVALID_INPUT"],
    ["no type", [{}], "INVALID_INPUT"],
    ["a type with NUL", [{ type: "a\0" }], "INVALID_INPUT"],
    ["a type with a lone surrogate", [{ type: "\ud800" }], "INVALID_INPUT"],
    ["a key of 512 bytes", [{ type: "a", idempotencyKey: text(512) }], "OK"],
    ["a key of 513 bytes", [{ type: "a", idempotencyKey: text(513) }], "INVALID_INPUT"],
    ["a body of 8 MiB", [{ type: "a", payload: text(8 * 1024 * 1024 - 2) }], "OK"],
    ["a body one byte larger", [{ type: "a", payload: text(8 * 1024 * 1024 - 1) }], "EVENT_TOO_LARGE"],
    [
      "payload and metadata that are too large together",
      [{ type: "a", payload: text(4 * 1024 * 1024), metadata: text(4 * 1024 * 1024) }],
      "EVENT_TOO_LARGE",
    ],
    ["16 MiB in all", Array.from({ length: 4 }, () => ({ type: "a", payload: text(4 * 1024 * 1024 - 2) })), "OK"],
    [
      "more than 16 MiB in all",
      [...Array.from({ length: 4 }, () => ({ type: "a", payload: text(4 * 1024 * 1024 - 2) })), { type: "a", payload: 1 }],
      "BATCH_TOO_LARGE",
    ],
    ["offset 1", [{ type: "a", offset: 1 }], "OK"],
    ["offset 0", [{ type: "a", offset: 0 }], "INVALID_INPUT"],
    ["a fractional offset", [{ type: "a", offset: 1.5 }], "INVALID_INPUT"],
    ["no object", ["a"], "INVALID_INPUT"],
    ["a list as event", [[]], "INVALID_INPUT"],
  ])("%s", (_, args, code) => {
    expect(codeOf(() => eventInputs(args))).toBe(code);
  });

  it("keep nothing of a forged source but the processor's label", () => {
    const processor = { slug: "s", version: "1", whileProcessing: { offset: 3, type: "t" }, more: true };
    expect(eventInputs([{ type: "a", source: { origin: "/x", principal: "root", platform: true, processor }, extra: 1 }])).toEqual([
      { type: "a", source: { processor: { slug: "s", version: "1", whileProcessing: { offset: 3, type: "t" } } } },
    ]);
  });

  it("keep a payload that is null apart from none", () => {
    expect(eventInputs([{ type: "a", payload: null }, { type: "a" }])).toEqual([{ type: "a", payload: null }, { type: "a" }]);
  });
});

describe("the arguments of reads and waits", () => {
  it.each([
    ["read of nothing", () => readArgs([]), "OK"],
    ["limit 1,000", () => readArgs([{ limit: 1_000 }]), "OK"],
    ["limit 1,001", () => readArgs([{ limit: 1_001 }]), "INVALID_INPUT"],
    ["limit 0", () => readArgs([{ limit: 0 }]), "INVALID_INPUT"],
    ["100 types", () => readArgs([{ types: Array.from({ length: 100 }, () => "t") }]), "OK"],
    ["101 types", () => readArgs([{ types: Array.from({ length: 101 }, () => "t") }]), "INVALID_INPUT"],
    ["a negative offset", () => readArgs([{ afterOffset: -1 }]), "INVALID_INPUT"],
    ["two arguments", () => readArgs([{}, {}]), "INVALID_INPUT"],
    ["ephemeral events too", () => readArgs([{ includeEphemeral: true }]), "OK"],
    ["ephemeral events by another word", () => readArgs([{ includeEphemeral: "yes" }]), "INVALID_INPUT"],
    ["an ephemeral event", () => eventInputs([{ type: "t", ephemeral: true }]), "OK"],
    ["an event that is ephemeral by another word", () => eventInputs([{ type: "t", ephemeral: 1 }]), "INVALID_INPUT"],
    ["a wait for one type", () => waitArgs([{ type: "t" }]), "OK"],
    ["a wait for type and types", () => waitArgs([{ type: "t", types: ["t"] }]), "INVALID_INPUT"],
    ["a wait for nothing", () => waitArgs([{}]), "INVALID_INPUT"],
    ["a wait for no types", () => waitArgs([{ types: [] }]), "INVALID_INPUT"],
    ["120 s", () => waitArgs([{ type: "t", timeoutMs: 120_000 }]), "OK"],
    ["more than 120 s", () => waitArgs([{ type: "t", timeoutMs: 120_001 }]), "INVALID_INPUT"],
    ["a nested pattern", () => waitArgs([{ type: "t", payload: { a: {} } }]), "INVALID_INPUT"],
    ["a plain pattern", () => waitArgs([{ type: "t", payload: { a: null, b: 1, c: "x", d: false } }]), "OK"],
    ["a facet name", () => facetName(["triage"]), "OK"],
    ["no facet name", () => facetName([]), "INVALID_INPUT"],
    ["waiting until processed", () => waitUntilArgs(["triage", { offset: 0 }]), "OK"],
    ["waiting until nowhere", () => waitUntilArgs(["triage", {}]), "INVALID_INPUT"],
    ["whoami with an argument", () => none([1]), "INVALID_INPUT"],
  ])("%s", (_, read, code) => {
    expect(codeOf(read)).toBe(code);
  });
});
