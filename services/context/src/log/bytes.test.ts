import { BinaryReader } from "@bufbuild/protobuf/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { Bytes, varintSize } from "./bytes.js";

const number = fc.oneof(
  fc.maxSafeNat(),
  fc.nat(300),
  fc.integer({ min: 0, max: 52 }).chain((bits) => fc.constantFrom(2 ** bits - 1, 2 ** bits, 2 ** bits + 1)),
);

test("a number is written as it is read, in as many bytes as were promised", () => {
  fc.assert(
    fc.property(number, (value) => {
      const bytes = new Bytes(0);
      bytes.reserve(varintSize(value));
      bytes.varint(value);
      expect(bytes.length).toBe(varintSize(value));
      expect(new BinaryReader(bytes.written()).uint64()).toBe(BigInt(value));
    }),
    { numRuns: 1_000 },
  );
});

test("what was written stays when room is made for more", () => {
  const bytes = new Bytes(Buffer.alloc(3));
  bytes.byte(1);
  bytes.reserve(100);
  bytes.field(0x0a, Buffer.from("abcdef"), 1, 4);
  expect(bytes.written()).toEqual(Buffer.from([1, 0x0a, 3, 98, 99, 100]));
});
