import type { AnyValue } from "@iterate-platform/proto/opentelemetry/proto/common/v1/common";
import { expect, test } from "vitest";
import { maxAttributes, maxAttributesLength, maxKeyLength, maxOwnerLength, maxPathLength, maxValueLength } from "../limits.js";
import { attributesOf } from "./attributes.js";
import { attributes, value } from "./export.fixture.js";

const parsed = (json: string): Record<string, unknown> => JSON.parse(json) as Record<string, unknown>;
const list = (...values: AnyValue[]): AnyValue => ({ value: { $case: "arrayValue", value: { values } } });
const object = (given: Record<string, AnyValue>): AnyValue => ({
  value: { $case: "kvlistValue", value: { values: Object.entries(given).map(([key, each]) => ({ key, value: each })) } },
});

test.for<[string, AnyValue | undefined, unknown]>([
  ["a text", value("a"), "a"],
  ["true", value(true), true],
  ["an integer", value(7n), 7],
  ["an integer beyond 2^53", value(2n ** 60n), "1152921504606846976"],
  ["a fraction", value(0.25), 0.25],
  ["no number", value(Number.NaN), "NaN"],
  ["infinity", value(Number.POSITIVE_INFINITY), "Infinity"],
  ["bytes", { value: { $case: "bytesValue", value: Buffer.from("hi") } }, "aGk="],
  ["a list", list(value("a"), value(1n)), ["a", 1]],
  ["an object", object({ a: value("b"), __proto_: list() }), { a: "b", __proto_: [] }],
  ["no value", undefined, null],
])("%s is kept as JSON", ([, given, expected]) => {
  expect(parsed(attributesOf([{ key: "k", value: given }]).json)).toEqual({ k: expected });
});

test.for<[number, boolean]>([
  [maxValueLength - 1, true],
  [maxValueLength, true],
  [maxValueLength + 1, false],
])("a text of %i characters is kept whole: %o", ([length, isWhole]) => {
  const kept = parsed(attributesOf(attributes({ k: "x".repeat(length) })).json)["k"] as string;
  expect(kept.length).toBe(Math.min(length, maxValueLength));
  expect(kept.endsWith("…")).toBe(!isWhole);
});

test.for<[number, number]>([
  [maxAttributes - 1, 0],
  [maxAttributes, 0],
  [maxAttributes + 1, 1],
])("of %i attributes %i are dropped, and it says so", ([count, dropped]) => {
  const kept = parsed(attributesOf(attributes(Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, "v"])))).json);
  expect(kept["iterate.attributes_dropped"] ?? 0).toBe(dropped);
});

test("a key that is too long or empty is dropped, one at the limit is kept", () => {
  const keys = ["", "k".repeat(maxKeyLength), "l".repeat(maxKeyLength + 1)];
  expect(Object.keys(parsed(attributesOf(keys.map((key) => ({ key, value: value("v") }))).json))).toEqual([
    keys[1],
    "iterate.attributes_dropped",
  ]);
});

test("all attributes together stay below their limit", () => {
  const given = attributes(Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`k${n}`, "x".repeat(2_000)])));
  const { json } = attributesOf(given);
  expect(json.length).toBeLessThanOrEqual(maxAttributesLength + 40);
  expect(parsed(json)["iterate.attributes_dropped"]).toBe(20 - Object.keys(parsed(json)).length + 1);
});

test("a value nested too deep ends, and lists and objects hold only so much", () => {
  let deep = value("end");
  for (let level = 0; level < 20; level += 1) deep = level % 2 === 0 ? list(deep) : object({ a: deep });
  const wide = list(...Array.from({ length: 10_000 }, () => value("x")));
  const { json } = attributesOf([
    { key: "deep", value: deep },
    { key: "wide", value: wide },
  ]);
  expect(json).toContain("[deep]");
  expect((parsed(json)["wide"] as unknown[]).length).toBeLessThan(maxValueLength);
});

test("owner and context are read under their names, and nothing else is one", () => {
  expect(attributesOf(attributes({ owner: "prj_a", context: "/a" }))).toMatchObject({ owner: "prj_a", context: "/a" });
  expect(attributesOf(attributes({ "iterate.owner": "prj_b" }))).toMatchObject({ owner: "prj_b", context: "" });
  expect(attributesOf(attributes({ "iterate.owner": "prj_b", owner: "prj_a" }))).toMatchObject({ owner: "prj_a" });
  expect(attributesOf(attributes({ owner: 5n }))).toMatchObject({ owner: "" });
});

test("an owner or a context over its limit is nobody's, never cut to another's", () => {
  const named = (owner: number, context: number) =>
    attributesOf(attributes({ owner: "o".repeat(owner), context: "c".repeat(context) }));
  expect(named(maxOwnerLength, maxPathLength)).toMatchObject({
    owner: "o".repeat(maxOwnerLength),
    context: "c".repeat(maxPathLength),
  });
  expect(named(maxOwnerLength + 1, maxPathLength + 1)).toMatchObject({ owner: "", context: "" });
});
