/** What holds the log to its promises finds the bugs that break them. All of them with LONG=1, some of each kind without. */
import { useTestDatabase } from "@iterate-platform/testing";
import { expect, test } from "vitest";
import { plantedBugs } from "./bugs.js";
import { runPlanted } from "./plant.js";

/** Within so many seeds a bug must be found. */
const seeds = 500;
const boundMs = 900_000;
const inShort = new Set([
  "the feed is read in the order of transactions, whether or not earlier ones still run",
  "an append is tried again without looking up whether it is in the log",
  "an answer is given from memory without confirming it",
]);

const database = useTestDatabase();
const bugs = plantedBugs.filter(({ name }) => process.env["LONG"] === "1" || inShort.has(name));

test.each(bugs.map((bug) => [bug.foundBy, bug.name, bug] as const))(
  "the %s finds: %s",
  { timeout: boundMs },
  async (foundBy, _, bug) => {
    const { isFound, output } =
      foundBy === "simulation"
        ? await runPlanted(bug, "test/simulation/main.ts", ["1", String(seeds)], boundMs)
        : await runPlanted(bug, "test/log-store/main.ts", [database.url], boundMs);
    expect(isFound, output).toBe(true);
    expect(output).toMatch(foundBy === "simulation" ? /^seed \d+: / : /^broken: /);
  },
);
