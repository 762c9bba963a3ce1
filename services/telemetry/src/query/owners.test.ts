import { expect, test } from "vitest";
import { spansOfOwner, type OwnedSpan } from "./owners.js";

/** `id<parent:owner`, each part but the id optional. */
function spans(sketch: string): OwnedSpan[] {
  return sketch.split(" ").map((text) => {
    const [, spanId, parentSpanId = "0", owner = ""] = /^(\w+)(?:<(\w+))?(?::(\w+))?$/.exec(text)!;
    return { spanId: spanId!, parentSpanId, owner };
  });
}

test.for<[string, string, string, string]>([
  ["a span that names its owner", "1:a", "a", "1"],
  ["what is below it", "1:a 2<1 3<2", "a", "1 2 3"],
  ["what is above it, when no other owner is named", "1 2<1:a", "a", "1 2"],
  ["not what is above it, when another is", "1 2<1:a 3<1:b", "a", "2"],
  ["the nearest named one decides", "1:a 2<1:b 3<2", "a", "1"],
  ["nothing of another's", "1:b 2<1", "a", ""],
  ["nothing of a trace that names nobody", "1 2<1", "a", ""],
  ["a span whose parent is not kept", "2<9 3<9:a 4<9:b", "a", "3"],
  ["a ring of parents", "1<2 2<1 3:a 4:b", "a", "3"],
  ["a span that is its own parent", "1<1:a 2<1", "a", "1 2"],
])("an owner sees %s", ([, sketch, owner, seen]) => {
  expect(
    spansOfOwner(spans(sketch), owner)
      .map(({ spanId }) => spanId)
      .join(" "),
  ).toBe(seen);
});

test("a chain of a thousand spans is resolved in one pass", () => {
  const chain = spans(Array.from({ length: 1_000 }, (_, n) => `${n + 1}<${n + 2}`).join(" ") + " 1001:a");
  expect(spansOfOwner(chain, "a")).toHaveLength(1_001);
});
