import { describe, expect, it } from "vitest";
import { exceedsUtf8, utf8Length } from "./utf8.js";

describe("exceedsUtf8", () => {
  it.each([
    ["abc", 3],
    ["é€😀", 9],
    ["\ud800", 3],
    ["", 0],
  ])("counts %j as %i bytes", (text, bytes) => {
    expect(utf8Length(text)).toBe(bytes);
    expect(exceedsUtf8(text, bytes)).toBe(false);
    if (bytes > 0) expect(exceedsUtf8(text, bytes - 1)).toBe(true);
  });
});
