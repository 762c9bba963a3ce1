/** Nothing ships undescribed: the walk over every root, member, event type and error code. */
import type { Root } from "@iterate-platform/proto/iterate/capability/v1/capability";
import { rootGaps } from "@iterate-platform/service/capability-gaps";
import { rootMessage } from "@iterate-platform/service/capability-service";
import { eventCatalog } from "iterate/events";
import { errorCodes } from "iterate/lib";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { builtinRoots } from "./builtins.js";
import { Registry } from "./registry.js";
import { describeRoot } from "./roots/describe.js";

/** Words are looked at, nothing is called. */
const nothing = {} as never;
const roots = [
  ...builtinRoots({ heads: nothing, urlOf: nothing, resolver: nothing, kv: nothing, schedulesOf: nothing, forget: nothing }),
  describeRoot(nothing),
].map((root) => rootMessage(root));

describe("everything addressable is described", () => {
  test.each(roots.map((root) => [root.name, root] as const))("the root %s", (_, root) => {
    expect(rootGaps(root)).toEqual([]);
  });

  test("the walk finds what is missing", () => {
    const [root] = roots as [Root];
    const [method] = root.methods as [Root["methods"][number]];
    expect(rootGaps({ ...root, instructions: "" })).not.toEqual([]);
    expect(rootGaps({ ...root, methods: [] })).not.toEqual([]);
    expect(rootGaps({ ...root, types: "" })).not.toEqual([]);
    for (const part of ["signature", "description", "example"] as const)
      expect(rootGaps({ ...root, methods: [{ ...method, [part]: "" }] })).not.toEqual([]);
    expect(rootGaps({ ...root, methods: [{ ...method, example: "itx.other()" }] })).not.toEqual([]);
  });

  test.each([...eventCatalog.values()].map((declaration) => [declaration.type, declaration] as const))(
    "the event type %s",
    (_, { description, payload }) => {
      expect(description).toMatch(/\.$/);
      expect(z.toJSONSchema(payload, { unrepresentable: "any", io: "input" })).toBeTypeOf("object");
    },
  );

  test.each(Object.entries(errorCodes))("the error code %s", (_, { description, remedy }) => {
    expect(description).toMatch(/\.$/);
    expect(remedy).toMatch(/\.$/);
  });
});

describe("the registry", () => {
  const whole = builtinRoots({
    heads: nothing,
    urlOf: nothing,
    resolver: nothing,
    kv: nothing,
    schedulesOf: nothing,
    forget: nothing,
  });

  test("takes a root once, of the vocabulary, as it says", () => {
    const registry = new Registry(whole);
    expect(() => registry.add(whole[0]!)).toThrow(/is registered already/);
    expect(() => registry.add({ ...whole[0]!, name: "unheard" })).toThrow(/not in the vocabulary/);
    expect(() => registry.add({ ...describeRoot(nothing), isContextRoot: false })).toThrow(/root of every context/);
    expect(registry.find("ai")).toBeUndefined();
    expect(registry.all.map(({ words }) => words.name)).toEqual(whole.map(({ name }) => name).sort());
  });
});
