import { expect, test } from "vitest";
import { isSignature } from "./signature.js";

// The example of GitHub's own documentation.
const material = Buffer.from("It's a Secret to Everybody");
const payload = Buffer.from("Hello, World!");
const signature = Buffer.from("757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", "hex");

test("accepts the signature that GitHub documents", () => {
  expect(isSignature("hmac-sha256", material, payload, signature)).toBe(true);
});

test("refuses another payload, another secret, another bit and another length", () => {
  expect(isSignature("hmac-sha256", material, Buffer.concat([payload, Buffer.from(" ")]), signature)).toBe(false);
  expect(isSignature("hmac-sha256", Buffer.from("another"), payload, signature)).toBe(false);
  for (let bit = 0; bit < signature.length * 8; bit += 1) {
    const altered = Buffer.from(signature);
    altered[bit >> 3]! ^= 1 << (bit & 7);
    expect(isSignature("hmac-sha256", material, payload, altered)).toBe(false);
  }
  expect(isSignature("hmac-sha256", material, payload, signature.subarray(1))).toBe(false);
  expect(isSignature("hmac-sha256", material, payload, Buffer.alloc(0))).toBe(false);
});
