import fc from "fast-check";
import { expect, test } from "vitest";
import { LineSplitter } from "./line-splitter.js";

const push = (splitter: LineSplitter, text: string) => splitter.push(Buffer.from(text)).map(String);

test("lines come out whole, however the bytes were cut", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom("a", "b", "é"), maxLength: 10 })),
      fc.array(fc.nat(20)),
      (lines, cuts) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
        const splitter = new LineSplitter(1_000);
        const seen: string[] = [];
        let from = 0;
        for (const cut of [...cuts, bytes.length]) {
          seen.push(...splitter.push(bytes.subarray(from, from + cut)).map(String));
          from += cut;
        }
        expect(seen).toEqual(lines);
      },
    ),
  );
});

test("a line at the bound passes, one byte more is skipped to its end", () => {
  const splitter = new LineSplitter(3);
  expect(push(splitter, "abc\nab")).toEqual(["abc"]);
  expect(splitter.hasSkipped).toBe(false);
  expect(push(splitter, "cd")).toEqual([]);
  expect(splitter.hasSkipped).toBe(true);
  expect(push(splitter, "efghijkl\nxyz\n")).toEqual(["xyz"]);
});

test("a long line that comes and ends in one piece is noticed", () => {
  const splitter = new LineSplitter(3);
  expect(push(splitter, "ab\nabcd\ncd\n")).toEqual(["ab", "cd"]);
  expect(splitter.hasSkipped).toBe(true);
});
