import { expect, test } from "vitest";
import { parseBatchFrame } from "./batch-frame.js";

const parse = (frame: unknown) => parseBatchFrame(Buffer.from(typeof frame === "string" ? frame : JSON.stringify(frame)));
const checkpoint = { kind: "checkpoint", version: "1", offset: 3, state: null, emits: [], backgroundCount: 0 };
const settled = { kind: "settled", failures: [] };

test("the engine's two answers pass, and fields of no meaning are dropped", () => {
  const emit = {
    type: "x",
    payload: { a: 1 },
    idempotencyKey: "k",
    source: { processor: { slug: "s", version: "1", whileProcessing: { offset: 1, type: "y" } } },
  };
  expect(
    parse({ ...checkpoint, emits: [{ ...emit, platform: true, source: { ...emit.source, origin: "/forged" } }], extra: 1 }),
  ).toEqual({ ...checkpoint, emits: [emit] });
  expect(parse({ ...settled, failures: [{ offset: null, code: "ISOLATE_LOST", message: "m" }] })).toEqual({
    kind: "settled",
    failures: [{ offset: null, code: "CODE_FAILED", message: "m" }],
  });
});

test.each([
  ["no JSON", "{"],
  ["bytes that are no UTF-8", "\ud800"],
  ["another kind", { kind: "done" }],
  ["a list", []],
  ["no state", { ...checkpoint, state: undefined }],
  ["no version", { ...checkpoint, version: "" }],
  ["a negative offset", { ...checkpoint, offset: -1 }],
  ["a fractional offset", { ...checkpoint, offset: 1.5 }],
  [
    "an offset beyond the safe integers",
    '{"kind":"checkpoint","version":"1","offset":9007199254740992,"state":0,"emits":[],"backgroundCount":0}',
  ],
  ["an infinite offset", '{"kind":"checkpoint","version":"1","offset":1e999,"state":0,"emits":[],"backgroundCount":0}'],
  ["emits that are no list", { ...checkpoint, emits: {} }],
  ["one emit too many", { ...checkpoint, emits: Array.from({ length: 1_001 }, () => ({ type: "x" })) }],
  ["an emit without a type", { ...checkpoint, emits: [{}] }],
  ["a type of 257 bytes", { ...checkpoint, emits: [{ type: "x".repeat(257) }] }],
  ["a key of 513 bytes", { ...checkpoint, emits: [{ type: "x", idempotencyKey: "k".repeat(513) }] }],
  ["failures that are no list", { ...settled, failures: null }],
])("a frame with %s is ISOLATE_OUTPUT", (what, frame) => {
  if (what === "bytes that are no UTF-8")
    expect(() => parseBatchFrame(Buffer.from([0x22, 0xff, 0x22]))).toThrow(expect.objectContaining({ code: "ISOLATE_OUTPUT" }));
  else expect(() => parse(frame)).toThrow(expect.objectContaining({ code: "ISOLATE_OUTPUT" }));
});

test("types of 256 bytes, keys of 512 and 1,000 emits pass", () => {
  const emits = Array.from({ length: 1_000 }, () => ({ type: "x".repeat(256), idempotencyKey: "k".repeat(512) }));
  expect(parse({ ...checkpoint, emits })).toMatchObject({ emits });
});
