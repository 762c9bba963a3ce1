import { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SourceBytes } from "./source-bytes.js";
import { decodeSource } from "./stored-event.js";

/** What every event with this source holds, by the way of objects. */
function byObjects(text: string): Buffer {
  return Buffer.from(Event.encode(Event.create({ source: decodeSource(text) })).finish());
}

const text = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.constantFrom("", "é", '"', "\\", "\n", "\ud800"));
const stamp = fc
  .record(
    {
      origin: text,
      cause: fc.record({ chain: text, depth: fc.oneof(fc.nat(200), fc.constantFrom(0, 127, 128, 2 ** 31 - 1)) }),
      principal: text,
      processor: fc.record(
        {
          slug: text,
          version: text,
          whileProcessing: fc.record({ offset: fc.oneof(fc.nat(200), fc.maxSafeNat()), type: text }),
        },
        { requiredKeys: ["slug", "version"] },
      ),
      platform: fc.boolean(),
    },
    { requiredKeys: ["origin", "cause"] },
  )
  .map((source) => JSON.stringify(source));

describe("the bytes of a source", () => {
  test("are those of the source that was parsed, wherever its text lies and whatever came before it", () => {
    fc.assert(
      fc.property(fc.array(stamp, { minLength: 1 }), fc.nat(20), (texts, shift) => {
        const sources = new SourceBytes();
        for (const one of texts) {
          const bytes = Buffer.from(one);
          const memory = Buffer.concat([Buffer.alloc(shift, "x"), bytes, Buffer.alloc(shift, "}")]);
          for (let time = 0; time < 2; time += 1)
            expect(sources.field(memory, shift, shift + bytes.length).equals(byObjects(one))).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    '{"origin":"/a","cause":{"chain":"c","depth":0}}',
    '{"cause":{"depth":1,"chain":"c"},"origin":"/a"}',
    '{"origin":"/a","cause":{"chain":"c","depth":0},"processor":{"slug":"s","version":"1"}}',
    '{"origin":"/a","cause":{"chain":"c","depth":0},"later":{"more":"than is known here"}}',
    '{ "origin" : "/a", "cause": {"chain":"c","depth":1e2} }',
    '{"origin":"\\u002fa","cause":{"chain":"c","depth":3},"platform":false}',
    '{"origin":"/a","origin":"/b","cause":{"chain":"c","depth":3}}',
  ])("of %s too", (one) => {
    expect(new SourceBytes().field(Buffer.from(one), 0, one.length).equals(byObjects(one))).toBe(true);
  });

  test.each([
    "",
    "null",
    "[]",
    "{}",
    "{",
    '{"origin":"/a"}',
    '{"origin":"/a","cause":{"chain":"c","depth":0}',
    '{"origin":"/a","cause":{"chain":"c","depth":0}}}',
    '{"origin":"/a","cause":{"chain":"c","depth":01}}',
    '{"origin":"/a","cause":{"chain":"c","depth":2147483648}}',
    '{"origin":"/a\n","cause":{"chain":"c","depth":0}}',
    '{"origin":"/a","cause":{"chain":"c","depth":0},}',
  ])("of %j there are none", (one) => {
    expect(() => new SourceBytes().field(Buffer.from(one), 0, one.length)).toThrow();
  });
});
