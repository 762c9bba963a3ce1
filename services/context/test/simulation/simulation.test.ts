/** The classes of the log that ship, in many deployments that all go wrong in another way. `SEED` begins at another seed than 1. */
import { expect, test } from "vitest";
import { simulate } from "./simulate.js";

const first = Number(process.env["SEED"] ?? 1);
const count = process.env["LONG"] === "1" ? 2_500 : 100;

test(`holds every promise of the log in ${count} simulated deployments`, { timeout: 3_600_000 }, async () => {
  let commits = 0;
  let fired = 0;
  for (let seed = first; seed < first + count; seed += 1) {
    const run = await simulate(seed);
    expect(run.violation, `seed ${seed}; make simulate SEED=${seed} runs it again`).toBeUndefined();
    commits += run.commits;
    fired += run.fired;
  }
  // They did something.
  expect(commits).toBeGreaterThan(count * 20);
  expect(fired).toBeGreaterThan(count * 5);
});

test("is decided by its seed alone", async () => {
  const [once, again, other] = [await simulate(7), await simulate(7), await simulate(8)];
  expect(again.story).toEqual(once.story);
  expect(other.story).not.toEqual(once.story);
});
