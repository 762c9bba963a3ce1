import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { bodyDigest, examineBody } from "./body.js";
import { canonicalJson } from "./canonical.js";
import { inlineJsonBytes, JsonThread } from "./worker-thread.js";

describe("the canonical spelling", () => {
  it.each([
    ['{"b":1,"a":[ 1 , 2 ]}', '{"a":[1,2],"b":1}'],
    ['"\\u0061\\/"', '"a/"'],
    ['"\\ud800"', '"\\ud800"'],
    ["1.0", "1"],
    ["1e2", "100"],
    ["-0", "0"],
    ["-0.0", "0"],
    ["1E400", "Infinity"],
    ["9007199254740991", "9007199254740991"],
    ["9007199254740993", "9007199254740993"],
    ["12345678901234567890", "12345678901234567890"],
    ["12345678901234567890.5", "12345678901234567000"],
    ["0.1000000000000000055", "0.1"],
    ['{"\u{1F600}":1,"\uFFFD":2}', '{"\u{1F600}":1,"\uFFFD":2}'],
    ['{"\\u007a":1,"a":2}', '{"a":2,"z":1}'],
    ["[]", "[]"],
    ["{ }", "{}"],
    ["[true,false,null]", "[true,false,null]"],
  ])("of %s is %s", (text, canonical) => {
    expect(canonicalJson(text)).toBe(canonical);
  });

  it("is the same for the same value and keeps the value", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(0, 2), (value, indent) => {
        const canonical = canonicalJson(JSON.stringify(value, null, indent));
        expect(JSON.parse(canonical)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(canonicalJson(JSON.stringify(shuffled(value)))).toBe(canonical);
      }),
    );
  });
});

describe("a body's digest", () => {
  const digest = (type: string, payload: string | null, metadata: string | null = null): string =>
    bodyDigest(type, payload === null ? null : Buffer.from(payload), metadata === null ? null : Buffer.from(metadata)).toString(
      "hex",
    );

  it("[iterate-16] ignores the order of keys and the spelling", () => {
    expect(digest("t", '{"a":1,"b":{"c":[],"d":"x"}}')).toBe(digest("t", '{ "b": {"d":"\\u0078","c":[]}, "a": 1.0 }'));
  });

  it.each([
    ["another type", digest("u", "1")],
    ["another payload", digest("t", "2")],
    ["no payload", digest("t", null)],
    ["a metadata", digest("t", "1", "1")],
  ])("differs for %s", (_, other) => {
    expect(other).not.toBe(digest("t", "1"));
  });

  it("tells an absent payload from null and integers beyond 2^53 from their neighbours", () => {
    expect(digest("t", null)).not.toBe(digest("t", "null"));
    expect(digest("t", "9007199254740992")).not.toBe(digest("t", "9007199254740993"));
  });
});

describe("the thread for large bodies", () => {
  const thread = new JsonThread();
  afterAll(() => thread.close());

  const sized = (bytes: number, text = "x"): Buffer => Buffer.from(JSON.stringify(text.repeat(bytes - 2)));

  it("examines up to 256 KiB in place and one byte more in the thread", async () => {
    const before = thread.examined;
    const body = { type: "t", metadata: null, isKeyed: true };
    const small = { ...body, payload: sized(inlineJsonBytes) };
    expect(thread.examine(small)).toEqual(examineBody(small));
    expect(thread.examined).toBe(before);
    const large = { ...body, payload: sized(inlineJsonBytes + 1) };
    const verdict = await thread.examine(large);
    expect(thread.examined).toBe(before + 1);
    expect(verdict.problem).toBeNull();
    expect(Buffer.from(verdict.digest!)).toEqual(examineBody(large).digest);
  });

  it("says what is wrong with a large body", async () => {
    const payload = Buffer.concat([Buffer.from('{"a":1,"a":'), sized(inlineJsonBytes + 1), Buffer.from("}")]);
    expect(await thread.examine({ type: "t", payload, metadata: null, isKeyed: false })).toMatchObject({
      problem: expect.stringContaining('repeats the key "a"') as string,
    });
  });
});

function shuffled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shuffled);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, inner]) => [key, shuffled(inner)]),
  );
}
