import { describe, expect, it } from "vitest";
import { Pace } from "./pace.js";

describe("the pace of one subscription", () => {
  it("lets an idle one go at once and a busy one at its rate", () => {
    const pace = new Pace(20, 5, 0);
    const commits: number[] = [];
    for (let now = 0; now < 10_000;) {
      const waitMs = pace.take(now);
      if (waitMs === 0) commits.push(now);
      else now += waitMs;
    }
    expect(commits.slice(0, 5)).toEqual([0, 0, 0, 0, 0]);
    expect(commits).toHaveLength(5 + 20 * 10 - 1);
  });

  it("gives the burst back while idle, never more", () => {
    const pace = new Pace(20, 2, 0);
    expect([pace.take(0), pace.take(0), pace.take(0)]).toEqual([0, 0, 50]);
    expect([pace.take(60_000), pace.take(60_000), pace.take(60_000)]).toEqual([0, 0, 50]);
  });
});
