import { expect, test } from "vitest";
import { decodePosition, encodePosition, positionBefore } from "./log-position.js";

test.for([
  positionBefore(0n),
  { atUs: 1_800_000_000_000_000n, export: -5n, ordinal: 7 },
  { atUs: 2n ** 63n - 1n, export: 2n ** 63n - 1n, ordinal: 2 ** 31 - 1 },
])("%o comes back from its token", (position) => {
  expect(decodePosition(encodePosition(position))).toEqual(position);
});

test.for([
  ["a word", "abc"],
  ["nothing like it", "%%%"],
  ["a byte too few", encodePosition(positionBefore(1n)).slice(0, -2)],
  ["another version", Buffer.alloc(21).toString("base64url")],
  ["spaces within", ` ${encodePosition(positionBefore(1n))}`],
])("%s is no token", ([, token]) => {
  expect(() => decodePosition(token!)).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }) as Error);
});
