import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { open, seal } from "./envelope.js";
import { Keyring } from "./keyring.js";

const key = (): string => randomBytes(32).toString("base64");
const first = key();
const keyring = Keyring.parse(JSON.stringify({ primary: "a", keys: { a: first } }));
const address = { owner: "prj_1", path: "/secrets/github" };
const material = Buffer.from("it is a secret to everybody");

describe("an envelope", () => {
  test("opens to the bytes that were sealed and shows none of them", () => {
    const sealed = seal(keyring, address, material);
    expect(open(keyring, address, sealed)).toEqual(material);
    for (const part of [sealed.wrappedKey, sealed.box]) expect(Buffer.from(part, "base64").includes(material)).toBe(false);
  });

  test("is another one every time, for the same secret", () => {
    const [one, two] = [seal(keyring, address, material), seal(keyring, address, material)];
    expect(one.box).not.toBe(two.box);
    expect(one.wrappedKey).not.toBe(two.wrappedKey);
  });

  test.each([
    ["at another path", { ...address, path: "/secrets/other" }],
    ["of another project", { ...address, owner: "prj_2" }],
  ])("does not open %s", (_, elsewhere) => {
    const sealed = seal(keyring, address, material);
    expect(() => open(keyring, elsewhere, sealed)).toThrow(/does not open/);
  });

  test("does not open when one bit of any part was changed", () => {
    const sealed = seal(keyring, address, material);
    for (const part of ["wrappedKey", "box"] as const) {
      const bytes = Buffer.from(sealed[part], "base64");
      for (const at of [0, 12, bytes.length - 1]) {
        const altered = Buffer.from(bytes);
        altered[at]! ^= 1;
        expect(() => open(keyring, address, { ...sealed, [part]: altered.toString("base64") }), `${part} ${at}`).toThrow(
          /does not open/,
        );
      }
      expect(() => open(keyring, address, { ...sealed, [part]: "" }), part).toThrow(/does not open/);
    }
  });

  test("opens under a key that is no longer primary, and not once that key is gone", () => {
    const sealed = seal(keyring, address, material);
    const rotated = Keyring.parse(JSON.stringify({ primary: "b", keys: { a: first, b: key() } }));
    expect(open(rotated, address, sealed)).toEqual(material);
    expect(seal(rotated, address, material).keyId).toBe("b");
    const removed = Keyring.parse(JSON.stringify({ primary: "b", keys: { b: key() } }));
    expect(() => open(removed, address, sealed)).toThrow(/"a" is not among ITERATE_SECRET_KEYS/);
  });
});

describe("a keyring", () => {
  test.each([
    ["{not json", "is not JSON"],
    ["{}", "does not have the form"],
    [JSON.stringify({ primary: "a", keys: {} }), 'names the primary key "a" and does not hold it'],
    [JSON.stringify({ primary: "a", keys: { a: randomBytes(31).toString("base64") } }), "of 31 bytes, not 32"],
    [JSON.stringify({ primary: "a", keys: { a: randomBytes(33).toString("base64") } }), "of 33 bytes, not 32"],
    [JSON.stringify({ primary: "a", keys: { a: first }, more: 1 }), "does not have the form"],
    ["/no/such/file", "cannot be read (ENOENT)"],
  ])("refuses %s without quoting a key", (text, problem) => {
    let message = "";
    try {
      Keyring.load(text);
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message).toContain(problem);
    expect(message).not.toContain(first);
  });
});
