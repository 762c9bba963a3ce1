import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Watermark } from "./watermark.js";

const page = (position: string, commits: Record<string, number>) => ({ position, commits: new Map(Object.entries(commits)) });
const upTo = (settled: Record<string, number>) => (context: string, through: number) => (settled[context] ?? 0) >= through;

describe("the watermark", () => {
  it("stays where it was stored until a page is worked off", () => {
    const mark = new Watermark("p0");
    mark.note(page("p1", { a: 3, b: 1 }));
    expect(mark.advance(upTo({ a: 3 }))).toBe(false);
    expect(mark.position).toBe("p0");
    expect(mark.advance(upTo({ a: 3, b: 1 }))).toBe(true);
    expect(mark.position).toBe("p1");
    expect(mark.pending).toBe(0);
  });

  it("does not pass an open page although a later one is worked off", () => {
    const mark = new Watermark("");
    mark.note(page("p1", { slow: 1 }));
    mark.note(page("p2", { quick: 1 }));
    expect(mark.advance(upTo({ quick: 1 }))).toBe(false);
    expect(mark.owed(upTo({ quick: 1 }))).toEqual(new Map([["slow", 1]]));
    expect(mark.advance(upTo({ quick: 1, slow: 1 }))).toBe(true);
    expect(mark.position).toBe("p2");
  });

  it("names the highest offset owed to a context of several pages", () => {
    const mark = new Watermark("");
    mark.note(page("p1", { a: 3 }));
    mark.note(page("p2", { a: 9, b: 2 }));
    expect(mark.owed(upTo({ a: 1 }))).toEqual(
      new Map([
        ["a", 9],
        ["b", 2],
      ]),
    );
  });

  it("never stands behind a commit that is owed, whatever is settled in whatever order", () => {
    const name = fc.constantFrom("a", "b", "c");
    const step = fc.oneof(
      fc.record({ commits: fc.array(name, { maxLength: 4 }) }),
      fc.record({ deliver: name, by: fc.integer({ min: 1, max: 3 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const heads: Record<string, number> = { a: 0, b: 0, c: 0 };
        const cursors: Record<string, number> = { a: 0, b: 0, c: 0 };
        const log: { position: number; context: string; offset: number }[] = [];
        const mark = new Watermark("0");
        let position = 0;
        for (const step of steps) {
          if ("commits" in step) {
            position += 1;
            const commits = new Map<string, number>();
            for (const context of step.commits) commits.set(context, (heads[context] = (heads[context] ?? 0) + 1));
            for (const [context, offset] of commits) log.push({ position, context, offset });
            mark.note({ position: String(position), commits });
          } else {
            cursors[step.deliver] = Math.min(heads[step.deliver]!, cursors[step.deliver]! + step.by);
          }
          mark.advance(upTo(cursors));
          for (const { position: at, context, offset } of log) {
            if (cursors[context]! < offset) expect(Number(mark.position)).toBeLessThan(at);
          }
        }
        expect(mark.advance(upTo(heads)) || mark.pending === 0).toBe(true);
        expect(Number(mark.position)).toBe(position);
      }),
    );
  });
});
