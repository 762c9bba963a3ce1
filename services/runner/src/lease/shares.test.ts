import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fairShare } from "./shares.js";

describe("fair shares of the partitions", () => {
  it.each([
    [["a"], "a", 256],
    [["a", "b"], "b", 128],
    [["a", "b", "c"], "a", 86],
    [["a", "b", "c"], "b", 85],
    [["a", "b"], "gone", 0],
    [["b", "a", "b"], "a", 128],
  ])("gives of %j to %s %i", (alive, pod, share) => {
    expect(fairShare(alive, pod)).toBe(share);
  });

  it("adds up to every partition and differs by at most one", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string({ minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 40 }), (pods) => {
        const shares = pods.map((pod) => fairShare(pods, pod));
        expect(shares.reduce((sum, share) => sum + share, 0)).toBe(256);
        expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
      }),
    );
  });
});
