import { expect, test } from "vitest";
import { assertProjectSlug, maxLabelLength } from "./slug.js";

test.for(["a", "my-project", "p2", "a".repeat(maxLabelLength - 1), "a".repeat(maxLabelLength)])("the slug %s is taken", (slug) => {
  expect(() => assertProjectSlug(slug)).not.toThrow();
});

test.for(["", "2go", "-a", "a-", "A", "a_b", "a.b", "a--b", "ä", "a\u0000", "api", "global", "a".repeat(maxLabelLength + 1)])(
  "the slug %j is refused by name",
  (slug) => {
    expect(() => assertProjectSlug(slug)).toThrow(
      expect.objectContaining({ code: "INVALID_INPUT", message: expect.stringContaining("slug") }),
    );
  },
);
