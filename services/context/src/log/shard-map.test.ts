import { describe, expect, test } from "vitest";
import { parseShards, ShardMap } from "./shard-map.js";

const a = "postgres://u:p,1@a:5432/db";
const b = "postgresql://b/db?options=x,y";

describe("the map of shards", () => {
  test("gives each partition its database, and each database one shard", () => {
    const opened: string[] = [];
    const map = new ShardMap(parseShards(`200-255=${a}, 0-99=${a},100-199=${b}`), (url) => {
      opened.push(url);
      return url;
    });
    expect([0, 99, 100, 199, 200, 255].map((partition) => map.of(partition))).toEqual([a, a, b, b, a, a]);
    expect(map.all).toEqual([a, b]);
    expect(opened).toEqual([a, b]);
  });

  test.each([
    [`0-255=${a}`, undefined],
    [`0-254=${a}`, "ends at partition 254"],
    [`0-256=${a}`, "ends at partition 256"],
    [`1-255=${a}`, "does not cover partition 0 exactly once"],
    [`0-99=${a},99-255=${b}`, "does not cover partition 100 exactly once"],
    [`0-99=${a},101-255=${b}`, "does not cover partition 100 exactly once"],
    [`0-99=${a},100-98=${b}`, "does not cover partition 100 exactly once"],
    [`0-255=http://a`, "holds a part that is not"],
    ["", "holds a part that is not"],
  ])("%s", (text, problem) => {
    if (problem === undefined) expect(parseShards(text)).toHaveLength(1);
    else expect(() => parseShards(text)).toThrow(problem);
  });
});
