import { expect, test } from "vitest";
import { RestartBudget } from "./restart-budget.js";

function delays(deaths: readonly { at: number; ran: number }[]): (number | undefined)[] {
  const budget = new RestartBudget();
  return deaths.map(({ at, ran }) => budget.afterDeath(at, ran));
}

test("a service that keeps dying is started later and later, up to 5 s, and not an eleventh time within a minute", () => {
  const deaths = Array.from({ length: 11 }, (_, index) => ({ at: index * 5_000, ran: 10 }));
  expect(delays(deaths)).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000, 5_000, undefined]);
});

test("deaths of more than a minute ago do not count", () => {
  const deaths = Array.from({ length: 30 }, (_, index) => ({ at: index * 6_000, ran: 10 }));
  expect(delays(deaths)).not.toContain(undefined);
});

test.each([
  { ran: 9_999, delay: 200 },
  { ran: 10_000, delay: 100 },
  { ran: 10_001, delay: 100 },
])("after running $ran ms the next start comes after $delay ms", ({ ran, delay }) => {
  expect(
    delays([
      { at: 0, ran: 0 },
      { at: 20_000, ran },
    ]),
  ).toEqual([100, delay]);
});
