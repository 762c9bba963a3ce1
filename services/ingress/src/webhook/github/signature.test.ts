import { expect, test } from "vitest";
import { deliveryHeaders } from "./signature.js";

const good = {
  "x-hub-signature-256": `sha256=${"ab".repeat(32)}`,
  "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
  "x-github-event": "issues",
};
const read = (headers: Record<string, string>) => deliveryHeaders((name) => headers[name]);

test("a delivery's id, name and signature are read", () => {
  expect(read(good)).toEqual({ id: good["x-github-delivery"], name: "issues", signature: Buffer.alloc(32, 0xab) });
});

test.for([
  undefined,
  "",
  "sha1=abcd",
  `sha256=${"ab".repeat(31)}`,
  `sha256=${"ab".repeat(33)}`,
  `sha256=${"zz".repeat(32)}`,
  "ab".repeat(32),
])("the signature header %s is a bad signature", (value) => {
  const { "x-hub-signature-256": _, ...rest } = good;
  expect(() => read(value === undefined ? rest : { ...rest, "x-hub-signature-256": value })).toThrow(
    expect.objectContaining({ code: "INVALID_SIGNATURE" }),
  );
});

test.for([
  ["x-github-delivery", "a b"],
  ["x-github-delivery", "a".repeat(129)],
  ["x-github-event", "Issues"],
  ["x-github-event", "../x"],
] as const)("the header %s with %s is refused by name", ([name, value]) => {
  expect(() => read({ ...good, [name]: value })).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }));
});
