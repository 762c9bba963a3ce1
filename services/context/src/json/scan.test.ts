import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonProblem, maxJsonDepth } from "./scan.js";

const problem = (text: string): string | null => jsonProblem(Buffer.from(text));

describe("a JSON text as it lies in memory", () => {
  it.each([
    ["null"],
    [" \t\r\n[1, -0, 0.5, 1e400, 12345678901234567890] "],
    ['{"a":{"a":[{"a":1},{"a":2}]},"b":"a"}'],
    ['"\\u0000 \\ud800 \\"\\\\\\/\\b\\f\\n\\r\\t"'],
    ['"\u{1F600} é \u2028"'],
    ['{"":1," ":2}'],
    [`${"[".repeat(maxJsonDepth)}${"]".repeat(maxJsonDepth)}`],
    [JSON.stringify(Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`key${index}`, index])))],
  ])("takes %s", (text) => {
    expect(problem(text)).toBeNull();
  });

  it.each([
    ["", "ends early"],
    ["   ", "ends early"],
    ["nul", "a value is expected"],
    ["nulll", "more than one"],
    ["1 2", "more than one"],
    ["01", "more than one"],
    ["+1", "a value is expected"],
    ["-", "ends early"],
    ["1.", "ends early"],
    [".5", "a value is expected"],
    ["1e", "ends early"],
    ["NaN", "a value is expected"],
    ["Infinity", "a value is expected"],
    ["'a'", "a value is expected"],
    ['"a', "does not end"],
    ['"\\', "escape is unknown"],
    ['"\\x41"', "escape is unknown"],
    ['"\\u00g0"', "four hexadecimal digits"],
    ['"\\u00', "four hexadecimal digits"],
    ['"a\nb"', "control character"],
    ['"a\u0000b"', "control character"],
    ["\u0000", "a value is expected"],
    ["[1,]", "a value is expected"],
    ["[1 2]", "',' or ']'"],
    ["[1", "',' or ']'"],
    ["{,}", "a key is expected"],
    ['{"a":1,}', "a key is expected"],
    ["{a:1}", "a key is expected"],
    ['{"a" 1}', "':' is expected"],
    ['{"a":1 "b":2}', "',' or '}'"],
    ['{"a":', "ends early"],
    ["/* c */ 1", "a value is expected"],
    ["\ufeff1", "a value is expected"],
    ['{"a":1,"a":1}', 'repeats the key "a"'],
    ['{"a":1,"\\u0061":1}', 'repeats the key "a"'],
    ['{"\\u0061":1,"b":0,"a":1}', 'repeats the key "a"'],
    ['{"__proto__":1,"__proto__":2}', 'repeats the key "__proto__"'],
    [`{${Array.from({ length: 40 }, (_, index) => `"key${index}":0`).join(",")},"key3":1}`, 'repeats the key "key3"'],
    [`{${Array.from({ length: 40 }, (_, index) => `"key${index}":0`).join(",")},"ke\\u00793":1}`, 'repeats the key "key3"'],
    [`${"[".repeat(maxJsonDepth + 1)}${"]".repeat(maxJsonDepth + 1)}`, "nested deeper than 128"],
    [`${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`, "nested deeper than 128"],
  ])("refuses %s", (text, expected) => {
    expect(problem(text)).toContain(expected);
  });

  it.each([
    ["a lone continuation byte", [0x22, 0x80, 0x22]],
    ["an overlong slash", [0x22, 0xc0, 0xaf, 0x22]],
    ["an encoded surrogate", [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ["a character beyond U+10FFFF", [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22]],
    ["a cut character", [0x22, 0xe2, 0x82]],
  ])("refuses %s", (_, bytes) => {
    expect(jsonProblem(Buffer.from(bytes))).toBe("is not valid UTF-8");
  });

  it("takes what JSON.stringify makes, whatever it is made of", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), fc.constantFrom(0, 1, 4), (text, indent) => {
        expect(problem(JSON.stringify(JSON.parse(text), null, indent))).toBeNull();
      }),
    );
  });

  it("agrees with JSON.parse about every text that repeats no key", () => {
    const piece = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ":",
      ",",
      '"a"',
      '"b"',
      "1",
      "-",
      "0",
      ".",
      "e",
      "true",
      "null",
      " ",
      "\\",
      '"',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = pieces.join("");
        const found = problem(text);
        if (found?.includes("repeats the key") === true) return;
        expect(found === null).toBe(isJson(text));
      }),
      { numRuns: 5_000 },
    );
  });

  /** Enough keys that they are held in a set, with these behind them. */
  const among = (...keys: string[]): string =>
    `{${[...Array.from({ length: 20 }, (_, index) => `"${index}é"`), ...keys].map((key) => `${key}:1`).join()}}`;

  it.each([
    ["lone surrogates that differ", ['"\\ud800"', '"\\udc00"', '"\\ufffd"']],
    ["a text in two normal forms", ['"é"', '"e\u0301"']],
    ["bytes that look like another's", ['"Ã©"', '"é"', '"\\u0000"']],
  ])("among many keys takes %s", (_what, keys) => {
    expect(problem(among(...keys))).toBeNull();
  });

  it.each([
    ["a key twice", ['"a"', '"a"']],
    ["a key spelt with an escape", ['"é"', '"\\u00e9"']],
    ["a pair of surrogates spelt out", ['"😀"', '"\\ud83d\\ude00"']],
    ["a lone surrogate twice", ['"\\ud800"', '"\\uD800"']],
    ["one of the first keys", ['"3\\u00e9"']],
  ])("among many keys finds %s", (_what, keys) => {
    expect(problem(among(...keys))).toContain("repeats the key");
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
