import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { expression, json, target } from "./expressions.fixture.js";
import {
  assertExpression,
  assertTarget,
  expressionLimits,
  parseExpression,
  parseTarget,
  printExpression,
  printTarget,
  toExpression,
  toMatch,
  toTarget,
} from "./index.js";

describe("text and parsed form", () => {
  test("a printed expression is read as what it was", () => {
    fc.assert(
      fc.property(expression, (given) => {
        assertExpression(given);
        expect(parseExpression(printExpression(given))).toEqual(given);
      }),
    );
  });

  test("a printed target is read as what it was", () => {
    fc.assert(
      fc.property(target, (given) => {
        assertTarget(given);
        expect(parseTarget(printTarget(given))).toEqual(given);
      }),
    );
  });

  test("the text of an expression is one, however its keys are ordered", () => {
    fc.assert(
      fc.property(expression, (given) => {
        const printed = printExpression(given);
        expect(printExpression(parseExpression(printed))).toBe(printed);
        expect(printExpression(JSON.parse(JSON.stringify(given, reversed)) as typeof given)).toBe(printed);
        expect(printed.isWellFormed()).toBe(true);
      }),
    );
  });

  it.each([
    ["itx", ["itx"], "itx"],
    ["itx.kv.get('k')", ["itx", "kv", ["get", "k"]], 'itx.kv.get("k")'],
    [
      'itx . kv\n.get ( "k" , { "limit" : 3 , after: -1.50e1 } ) ',
      ["itx", "kv", ["get", "k", { limit: 3, after: -15 }]],
      'itx.kv.get("k", {after: -15, limit: 3})',
    ],
    ["itx.f(1)(2)()", ["itx", ["f", 1], ["", 2], [""]], "itx.f(1)(2)()"],
    ["itx.f('it\\'s', \"\\u0000\\ud800\")", ["itx", ["f", "it's", "\u0000\ud800"]], 'itx.f("it\'s", "\\u0000\\ud800")'],
    [
      "itx.f({'a-b': [null, true, false, [], {}]})",
      ["itx", ["f", { "a-b": [null, true, false, [], {}] }]],
      'itx.f({"a-b": [null, true, false, [], {}]})',
    ],
    ['itx.f({"@": "args"})', ["itx", ["f", { "@": "args" }]], 'itx.f({"@": "args"})'],
    ["itx.f(-0)", ["itx", ["f", 0]], "itx.f(0)"],
    ["itx.a-b.$c._d", ["itx", "a-b", "$c", "_d"], "itx.a-b.$c._d"],
  ])("%s", (text, parsed, printed) => {
    expect(parseExpression(text)).toEqual(parsed);
    expect(printExpression(toExpression(parsed))).toBe(printed);
  });

  it.each([
    ["itx.kv.get(@)", ["itx", "kv", ["get", { "@": "args" }]]],
    ['itx.kv.get("tenant", @)', ["itx", "kv", ["get", "tenant", { "@": "args" }]]],
    ["itx.ai.run({prompt: @})", ["itx", "ai", ["run", { prompt: { "@": "arg" } }]]],
    ["itx.ai.run([@])", ["itx", "ai", ["run", [{ "@": "arg" }]]]],
    ['itx.ai.run({...@, model: "m"})', ["itx", "ai", ["run", { "@": "merge", with: { model: "m" } }]]],
    ["itx.ai.run({...@})", ["itx", "ai", ["run", { "@": "merge", with: {} }]]],
    [
      "itx.repos(@caller).get({by: @caller}, @)",
      ["itx", ["repos", { "@": "caller" }], ["get", { by: { "@": "caller" } }, { "@": "args" }]],
    ],
    ['itx.f({"@": {"@": 1}}).g', ["itx", ["f", { "@": "literal", value: { "@": { "@": "literal", value: { "@": 1 } } } }], "g"]],
  ])("the target %s", (text, parsed) => {
    expect(parseTarget(text)).toEqual(parsed);
    expect(printTarget(toTarget(parsed))).toBe(text);
  });

  it("puts what a target merges first", () => {
    expect(printTarget(parseTarget("itx.f({a: 1, ...@})"))).toBe("itx.f({...@, a: 1})");
  });

  it("takes the empty call off the end of a match, which matches no less without it", () => {
    expect(toMatch("itx.kv()")).toEqual(["itx", "kv"]);
    expect(toMatch(["itx", "kv", ["get"]])).toEqual(["itx", "kv", "get"]);
    expect(toMatch("itx.kv('a')")).toEqual(["itx", ["kv", "a"]]);
    expect(toMatch("itx.f()()")).toEqual(["itx", ["f"], [""]]);
    expect(toMatch("itx")).toEqual(["itx"]);
  });
});

describe("hostile input", () => {
  const steps = (count: number): string => `itx${".a".repeat(count)}`;
  const sized = (bytes: number): string => `itx.f("${"a".repeat(bytes - 'itx.f("")'.length)}")`;
  const nested = (depth: number): string => `itx.f(${"[".repeat(depth)}${"]".repeat(depth)})`;
  const nestedData = (depth: number): unknown => {
    let value: unknown = 1;
    for (let level = 0; level < depth; level += 1) value = [value];
    return ["itx", ["f", value]];
  };

  test.each([-1, 0, 1])("the length of a text, %i above what is taken", (above) => {
    const parse = (): unknown => parseExpression(sized(expressionLimits.bytes + above));
    if (above <= 0) expect(parse).not.toThrow();
    else expect(parse).toThrow(expect.objectContaining({ code: "EXPRESSION_TOO_LONG", data: { limit: 1_048_576, position: 0 } }));
  });

  test("the length of a text is that of its UTF-8", () => {
    const parse = (): unknown => parseExpression(`itx.f("${"é".repeat(expressionLimits.bytes / 2)}")`);
    expect(parse).toThrow(expect.objectContaining({ code: "EXPRESSION_TOO_LONG" }));
  });

  test.each([-1, 0, 1])("the number of steps, %i above what is taken", (above) => {
    const count = expressionLimits.steps + above;
    const data = ["itx", ...Array.from({ length: count }, () => "a")];
    for (const parse of [() => parseExpression(steps(count)), () => toExpression(data), () => toTarget(data)]) {
      if (above <= 0) expect(parse).not.toThrow();
      else expect(parse).toThrow(expect.objectContaining({ code: "EXPRESSION_TOO_LONG" }));
    }
  });

  test.each([-1, 0, 1])("the depth of an argument, %i above what is taken", (above) => {
    const depth = expressionLimits.depth + above;
    for (const parse of [
      () => parseExpression(nested(depth)),
      () => parseTarget(nested(depth)),
      () => toExpression(nestedData(depth)),
      () => toTarget(nestedData(depth)),
    ]) {
      if (above <= 0) expect(parse).not.toThrow();
      else
        expect(parse).toThrow(
          expect.objectContaining({ code: "INVALID_INPUT", message: expect.stringContaining("nest at most 64 deep") as string }),
        );
    }
  });

  test.each([
    ["a hundred thousand steps", steps(100_000), "EXPRESSION_TOO_LONG", { position: 3 + 2 * 256 }],
    ["a hundred thousand brackets", nested(100_000), "INVALID_INPUT", { position: "itx.f(".length + 64 }],
    ["nothing", "", "INVALID_INPUT", { position: 0 }],
    ["another root", "foo.bar", "INVALID_INPUT", { position: 0 }],
    ["a longer root", "itxy", "INVALID_INPUT", { position: 0 }],
    ["a dot at the end", "itx.", "INVALID_INPUT", { position: 4 }],
    ["a number as a step", "itx.1", "INVALID_INPUT", { position: 4 }],
    ["a step by index", "itx['a']", "INVALID_INPUT", { position: 3 }],
    ["NUL between steps", "itx.a\u0000", "INVALID_INPUT", { position: 5 }],
    ["NUL in a string", 'itx.f("a\u0000")', "INVALID_INPUT", { position: 8 }],
    ["a lone high surrogate", 'itx.f("😀\ud800")', "INVALID_INPUT", { position: 9 }],
    ["a lone low surrogate", "itx.\udc00", "INVALID_INPUT", { position: 4 }],
    ["__proto__ as a step", "itx.a.__proto__", "INVALID_INPUT", { position: 5 }],
    ["constructor as a step", "itx.constructor('x')", "INVALID_INPUT", { position: 3 }],
    ["prototype as a step", "itx.prototype", "INVALID_INPUT", { position: 3 }],
    ["__proto__ as a key", "itx.f({__proto__: 1})", "INVALID_INPUT", { position: 7 }],
    ["__proto__ as a quoted key", 'itx.f({"\\u005f_proto__": 1})', "INVALID_INPUT", { position: 7 }],
    ["a key twice", "itx.f({a: 1, 'a': 2})", "INVALID_INPUT", { position: 13 }],
    ["a comma at the end of a list", "itx.f([1,])", "INVALID_INPUT", { position: 9 }],
    ["a comma at the end of an object", "itx.f({a:1,})", "INVALID_INPUT", { position: 11 }],
    ["a comma at the end of the arguments", "itx.f(1,)", "INVALID_INPUT", { position: 8 }],
    ["a string without an end", "itx.f('a", "INVALID_INPUT", { position: 6 }],
    ["a string that ends in a backslash", "itx.f('a\\", "INVALID_INPUT", { position: 8 }],
    ["an escape of JavaScript's own", "itx.f('\\x41')", "INVALID_INPUT", { position: 7 }],
    ["half an escape", "itx.f('\\u00')", "INVALID_INPUT", { position: 7 }],
    ["a number too large", "itx.f(1e999)", "INVALID_INPUT", { position: 6 }],
    ["a number that starts with 0", "itx.f(01)", "INVALID_INPUT", { position: 7 }],
    ["undefined", "itx.f(undefined)", "INVALID_INPUT", { position: 6 }],
    ["a word that begins like one of JSON", "itx.f(nullish)", "INVALID_INPUT", { position: 6 }],
    ["a call without an end", "itx.f(1", "INVALID_INPUT", { position: 7 }],
    ["more after the end", "itx.f(1) x", "INVALID_INPUT", { position: 9 }],
    ["a hole in a call", "itx.f(@)", "INVALID_INPUT", { position: 6 }],
    ["a comment", "itx /* all */", "INVALID_INPUT", { position: 4 }],
  ])("%s is refused and its place told", (_, text, code, data) => {
    expect(() => parseExpression(text)).toThrow(
      expect.objectContaining({
        code,
        data: expect.objectContaining(data) as object,
        message: expect.stringContaining(`(at position ${data.position})`) as string,
      }),
    );
  });

  test.each([
    ["arguments before the last step", "itx.f(@).g", 6],
    ["one argument before the last step", "itx.f({a: @}).g", 10],
    ["a merge before the last step", "itx.f({...@}).g", 7],
    ["two merges in one object", "itx.f({...@, ...@})", 13],
    ["an unknown hole", "itx.f(@origin)", 6],
    ["a merge of the caller", "itx.f({...@caller})", 7],
    ["a spread of something else", "itx.f({...x})", 7],
  ])("a target with %s is refused and its place told", (_, text, position) => {
    expect(() => parseTarget(text)).toThrow(expect.objectContaining({ code: "INVALID_INPUT", data: { position } }));
  });

  test.each([
    ["no array", { 0: "itx" }, "[0]"],
    ["another root", ["ITX"], "[0]"],
    ["a step that is a number", ["itx", 1], "[1]"],
    ["a step without a method", ["itx", []], "[1]"],
    ["another form of a call", ["itx", "a", ["", 1]], "[2]"],
    ["an empty name", ["itx", ""], "[1]"],
    ["a step of prototypes", ["itx", "a", ["__proto__", 1]], "[2]"],
    ["a name with NUL", ["itx", "a\u0000"], "[1]"],
    ["a name with a dot", ["itx", "a.b"], "[1]"],
    ["NaN", ["itx", ["f", Number.NaN]], "[1][1]"],
    ["undefined", ["itx", ["f", { a: [undefined] }]], "[1][1].a[0]"],
    ["a function", ["itx", ["f", () => 1]], "[1][1]"],
    ["a bigint", ["itx", ["f", 1n]], "[1][1]"],
    ["a Date", ["itx", ["f", new Date(0)]], "[1][1]"],
    ["an own __proto__", ["itx", ["f", JSON.parse('{"a":{"__proto__":{"x":1}}}')]], "[1][1].a"],
  ])("parsed: %s is refused and its place told", (_, value, at) => {
    expect(() => toExpression(value)).toThrow(expect.objectContaining({ code: "INVALID_INPUT", data: { at } }));
    expect(() => toTarget(value)).toThrow(expect.objectContaining({ code: "INVALID_INPUT", data: { at } }));
  });

  test.each([
    ["an unknown hole", ["itx", ["f", { "@": "origin" }]], "[1][1]"],
    ["all arguments inside one", ["itx", ["f", [{ "@": "args" }]]], "[1][1][0]"],
    ["the only argument as one", ["itx", ["f", { "@": "arg" }]], "[1][1]"],
    ["arguments before the last step", ["itx", ["f", { "@": "args" }], "g"], "[1][1]"],
    ["a hole with another key", ["itx", ["f", { "@": "caller", a: 1 }]], "[1][1]"],
    ["a merge with nothing", ["itx", ["f", { "@": "merge", with: null }]], "[1][1]"],
    ["a literal without a key @", ["itx", ["f", { "@": "literal", value: { a: 1 } }]], "[1][1]"],
    ["an unknown hole in a literal", ["itx", ["f", { "@": "literal", value: { "@": { "@": 1 } } }]], "[1][1].@"],
  ])("a parsed target with %s is refused and its place told", (_, value, at) => {
    expect(() => toTarget(value)).toThrow(expect.objectContaining({ code: "INVALID_INPUT", data: { at } }));
    expect(() => toExpression(value)).not.toThrow();
  });

  test("nothing but coded errors is thrown, whatever the text", () => {
    const bits = fc.constantFrom(
      "itx",
      ".",
      "(",
      ")",
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      "'",
      '"',
      "\\",
      "@",
      "...",
      "a",
      "1",
      " ",
      "\ud800",
      "\u0000",
      "null",
    );
    const noise = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.array(bits).map((words) => `itx${words.join("")}`),
    );
    fc.assert(
      fc.property(noise, (text) => {
        for (const parse of [parseExpression, parseTarget]) {
          try {
            parse(text);
          } catch (error) {
            expect(error).toMatchObject({ code: "INVALID_INPUT" });
          }
        }
      }),
    );
  });

  test("any JSON is an argument", () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(() => toExpression(["itx", ["f", value]])).not.toThrow();
      }),
    );
  });
});

/** A reviver's opposite: objects with their keys the other way round. */
function reversed(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).reverse());
}
