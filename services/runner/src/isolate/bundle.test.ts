import { expect, test } from "vitest";
import { assertBundle, assertModuleName, entriesOf, type Bundle } from "./bundle.js";

const limits = { bundleModules: 3, bundleBytes: 10 };
const module = (name: string, bytes = 1) => ({ name, kind: "esModule" as const, data: Buffer.alloc(bytes) });
const bundle = (overrides: Partial<Bundle>): Bundle => ({
  owner: "prj_a",
  digest: "d1",
  modules: [module("a.js")],
  entryModules: ["a.js"],
  ...overrides,
});
const refused = (message: string): unknown =>
  expect.objectContaining({ code: "INVALID_INPUT", message: expect.stringContaining(message) });

test.each(["a.js", "src/deep/a-b_c.js", "@scope/x+y.js", "a".repeat(256)])("the module name %j is taken", (name) =>
  assertModuleName(name),
);

test.each(["", "/a.js", "../a.js", "a/../b.js", "./a.js", "a//b.js", "a/", "é.js", 'a".js', "a\n.js", "a b.js", "a".repeat(257)])(
  "the module name %j is refused",
  (name) => {
    expect(() => assertModuleName(name)).toThrow(refused("plain relative ASCII path"));
  },
);

test("a bundle at its limits is taken, one module or one byte more is refused", () => {
  assertBundle(bundle({ modules: [module("a.js", 8), module("b.js"), module("c.js")] }), limits);
  expect(() => assertBundle(bundle({ modules: ["a.js", "b.js", "c.js", "d.js"].map((name) => module(name)) }), limits)).toThrow(
    refused("4 modules"),
  );
  expect(() => assertBundle(bundle({ modules: [module("a.js", 11)] }), limits)).toThrow(refused("11 bytes"));
});

test("an entry that is no ECMAScript module of the bundle is refused", () => {
  expect(() => assertBundle(bundle({ entryModules: ["b.js"] }), limits)).toThrow(refused("b.js"));
  expect(() => assertBundle(bundle({ modules: [{ ...module("a.js"), kind: "text" }] }), limits)).toThrow(refused("a.js"));
  expect(() => assertBundle(bundle({ mainModule: "c.js" }), limits)).toThrow(refused("c.js"));
});

test("a module twice, and an owner or digest that could break a config, are refused", () => {
  expect(() => assertBundle(bundle({ modules: [module("a.js"), module("a.js")] }), limits)).toThrow(refused("twice"));
  expect(() => assertBundle(bundle({ owner: "prj a" }), limits)).toThrow(refused("owner"));
  expect(() => assertBundle(bundle({ digest: "x\ny" }), limits)).toThrow(refused("digest"));
});

test("entries are the main module first, then the others, each once", () => {
  expect(entriesOf({ mainModule: "m.js", entryModules: ["a.js", "m.js", "a.js"] })).toEqual(["m.js", "a.js"]);
  expect(entriesOf({ entryModules: [] })).toEqual([]);
});
