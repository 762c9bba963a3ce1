import { describe, expect, it, test } from "vitest";
import {
  fillTarget,
  isEqualJson,
  matchExpression,
  parseExpression,
  parseTarget,
  pinnedArgs,
  printExpression,
  spellsBuiltins,
  withArgs,
  withSteps,
} from "./index.js";

describe("matchExpression", () => {
  it.each<[string, string, object | null]>([
    ["itx", "itx", { args: null, steps: [] }],
    ["itx", "itx.kv.get(1)", { args: null, steps: ["kv", ["get", 1]] }],
    ["itx.kv", "itx.kv", { args: null, steps: [] }],
    ["itx.kv", "itx.kv.get(1)", { args: null, steps: [["get", 1]] }],
    ["itx.kv", "itx.kv(1, 2).x", { args: [1, 2], steps: ["x"] }],
    ["itx.kv", "itx.kv()", { args: [], steps: [] }],
    ["itx.kv", "itx.kvs", null],
    ["itx.kv", "itx", null],
    ["itx.kv.get", "itx.kv", null],
    ["itx.db.get", "itx.db(1).get(2)", null],
    ["itx.db.get", "itx.db().get(2)", null],
    ["itx.db().get", "itx.db().get(2)", { args: [2], steps: [] }],
    ["itx.db().get", "itx.db.get(2)", null],
    ["itx.run('a')", "itx.run('a')", { args: [], steps: [] }],
    ["itx.run('a')", "itx.run('a', 2)('x')", { args: [2], steps: [["", "x"]] }],
    ["itx.run('a')", "itx.run('b')", null],
    ["itx.run('a')", "itx.run", null],
    ["itx.run('a')", "itx.run()", null],
    ["itx.run({a: 1, b: [2]})", "itx.run({b: [2], a: 1}, 3)", { args: [3], steps: [] }],
    ["itx.run({a: 1})", "itx.run({a: 1, b: 2})", null],
    ["itx.run('a').of", "itx.run('a').of(1)", { args: [1], steps: [] }],
    ["itx.run('a').of", "itx.run('a', 2).of(1)", null],
    ["itx.f(1)(2)", "itx.f(1)(2, 3)", { args: [3], steps: [] }],
  ])("%s against %s", (match, expression, rest) => {
    expect(matchExpression(parseExpression(match), parseExpression(expression))).toEqual(rest);
  });
});

test.each<[unknown, unknown, boolean]>([
  [[1, { a: null }], [1, { a: null }], true],
  [{ a: 1 }, { a: undefined }, false],
  [{ a: 1 }, { b: 1 }, false],
  [[1], { 0: 1 }, false],
  [{ a: 1 }, { a: 1, toString: 1 }, false],
  [{ toString: 1 }, {}, false],
  [1, "1", false],
  [null, {}, false],
])("%j and %j are equal JSON: %s", (one, other, isEqual) => {
  expect(isEqualJson(one as never, other as never)).toBe(isEqual);
});

test("pinned arguments are counted over all steps", () => {
  expect(pinnedArgs(parseExpression("itx.a(1, 2).b.c(3)"))).toBe(3);
});

test.each([
  ["itx", "itx(1)"],
  ["itx.a", "itx.a(1)"],
  ["itx.a.b", "itx.a.b(1)"],
  ["itx.a.b()", "itx.a.b()(1)"],
  ["itx.a('x')", 'itx.a("x")(1)'],
])("an argument given to %s makes %s", (expression, called) => {
  expect(printExpression(withArgs(parseExpression(expression), [1]))).toBe(called);
});

test("steps that begin with a call go on from a name as a call of it", () => {
  expect(withSteps(["itx", "a"], [["", 1], "b"])).toEqual(["itx", ["a", 1], "b"]);
  expect(withSteps(["itx", ["a"]], [["", 1]])).toEqual(["itx", ["a"], ["", 1]]);
  expect(withSteps(["itx"], [["", 1]])).toEqual(["itx", ["", 1]]);
});

test.each([
  ["itx.builtins.kv", true],
  ["itx.cd('/a').builtins", true],
  ["itx.a.builtins()", true],
  ["itx.kv.put('builtins', 'itx.builtins.kv')", false],
])("%s spells builtins: %s", (expression, isSpelt) => {
  expect(spellsBuiltins(parseExpression(expression))).toBe(isSpelt);
});

describe("fillTarget", () => {
  it.each<[string, unknown[], string]>([
    ["itx.kv.get(@)", ["k", 2], 'itx.kv.get("k", 2)'],
    ["itx.kv.get('t', @, @)", ["k"], 'itx.kv.get("t", "k", "k")'],
    ["itx.kv.get(@)", [], "itx.kv.get()"],
    ["itx.run({prompt: @, of: [@]})", [{ "@": "args" }], 'itx.run({of: [{"@": "args"}], prompt: {"@": "args"}})'],
    ["itx.run({...@, model: 'm'})", [{ model: "x", limit: 1 }], 'itx.run({limit: 1, model: "m"})'],
    ["itx.run({...@, by: @caller})", [{}], 'itx.run({by: "/a"})'],
    ["itx.of(@caller).run({by: [@caller]})", [], 'itx.of("/a").run({by: ["/a"]})'],
    ['itx.run({"@": {x: @}})', [1], 'itx.run({"@": {x: 1}})'],
  ])("%s with %j", (target, args, expected) => {
    expect(printExpression(fillTarget(parseTarget(target), { args: args as never, caller: "/a" }))).toBe(expected);
  });

  it.each<[string, unknown[], string]>([
    ["itx.run({prompt: @})", [], "places one argument at @; the call has 0"],
    ["itx.run({prompt: @})", [1, 2], "places one argument at @; the call has 2"],
    ["itx.run({...@})", [], "places one argument at {...@}; the call has 0"],
    ["itx.run({...@})", [{}, {}], "places one argument at {...@}; the call has 2"],
    ["itx.run({...@})", [[]], "{...@} takes an object"],
    ["itx.run({...@})", [null], "{...@} takes an object"],
    ["itx.run({...@})", ["x"], "{...@} takes an object"],
  ])("%s with %j is refused", (target, args, message) => {
    expect(() => fillTarget(parseTarget(target), { args: args as never, caller: "/a" })).toThrow(
      expect.objectContaining({ code: "INVALID_INPUT", message: expect.stringContaining(message) as string }),
    );
  });
});
