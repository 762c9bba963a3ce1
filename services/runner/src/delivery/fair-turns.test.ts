import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FairTurns } from "./fair-turns.js";

const never = new AbortController().signal;

describe("turns between projects", () => {
  it("gives at most the total, and at most the project's share, at once", async () => {
    const turns = new FairTurns({ total: 3, perProject: 2 });
    const order: string[] = [];
    const take = (project: string) => turns.take(project, never).then((release) => (order.push(project), release));
    const [first] = [take("a"), take("a"), take("a"), take("b"), take("b")];
    const release = await first;
    await Promise.resolve();
    expect(order.sort()).toEqual(["a", "a", "b"]);
    expect(turns.counts).toEqual({ taken: 3, waiting: 2 });
    release();
    release();
    await new Promise(setImmediate);
    expect(turns.counts).toEqual({ taken: 3, waiting: 1 });
  });

  it("serves a project that comes late before the flood of another", async () => {
    const turns = new FairTurns({ total: 1, perProject: 1 });
    const order: string[] = [];
    const work = async (project: string): Promise<void> => {
      const release = await turns.take(project, never);
      order.push(project);
      await Promise.resolve();
      release();
    };
    await Promise.all([...Array.from({ length: 20 }, () => work("flood")), work("late")]);
    // One turn of the flood is running, and one more may have been next in line already.
    expect(order.indexOf("late")).toBeLessThanOrEqual(2);
  });

  it("forgets a caller that gave up, and its place goes to the next", async () => {
    const turns = new FairTurns({ total: 1, perProject: 1 });
    const release = await turns.take("a", never);
    const impatient = new AbortController();
    const given = expect(turns.take("a", impatient.signal)).rejects.toThrow("gone");
    const patient = turns.take("a", never);
    impatient.abort(new Error("gone"));
    await given;
    release();
    (await patient)();
    expect(turns.counts).toEqual({ taken: 0, waiting: 0 });
  });

  it("never goes over a limit and serves everyone, whatever the mix", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 40 }),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 3 }),
        async (projects, total, perProject) => {
          const turns = new FairTurns({ total, perProject });
          const running = new Map<string, number>();
          await Promise.all(
            projects.map(async (project) => {
              const release = await turns.take(project, never);
              running.set(project, (running.get(project) ?? 0) + 1);
              expect(running.get(project)).toBeLessThanOrEqual(perProject);
              expect([...running.values()].reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(total);
              await new Promise(setImmediate);
              running.set(project, running.get(project)! - 1);
              release();
            }),
          );
          expect(turns.counts).toEqual({ taken: 0, waiting: 0 });
        },
      ),
      { numRuns: 30 },
    );
  });
});
