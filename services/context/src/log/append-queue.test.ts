import { describe, expect, it } from "vitest";
import { ContextQueue, FairQueue, PendingAppend, type ContextBatch } from "./append-queue.js";
import type { StorableEvent } from "./contract.js";
import { service } from "./engine.fixture.js";
import { queueLimits } from "./limits.js";

const pending = (): PendingAppend =>
  new PendingAppend(
    { appendId: "00000000-0000-7000-8000-000000000000", writer: service, traceparent: null, key: null, guard: null },
    0,
    { appendSettled: () => undefined },
    () => undefined,
    () => undefined,
  );
const append = (bytes = 100, isAlone = false): PendingAppend => {
  const made = pending();
  made.complete([{ bytes } as StorableEvent]);
  made.isAlone = isAlone;
  return made;
};
const context = (owner: string, path: string, appends: readonly PendingAppend[]): ContextQueue => {
  const made = new ContextQueue(`${owner} ${path}`, { owner, path });
  for (const append of appends) made.push(append);
  return made;
};
const times = (count: number, bytes?: number): PendingAppend[] => Array.from({ length: count }, () => append(bytes));
const shape = (group: readonly ContextBatch[]): [string, number][] =>
  group.map(({ context, appends }) => [context.name, appends.length]);
const total = (group: readonly ContextBatch[]): number => group.reduce((sum, { appends }) => sum + appends.length, 0);

describe("the next group", () => {
  it("takes all that waits, each context once and in its order", () => {
    const queue = new FairQueue();
    const all = times(5);
    queue.add(context("a", "/1", all));
    queue.add(context("a", "/2", times(1)));
    const group = queue.takeGroup();
    expect(shape(group)).toEqual([
      ["a /1", 5],
      ["a /2", 1],
    ]);
    expect(group[0]!.appends).toEqual(all);
    expect(queue.takeGroup()).toEqual([]);
  });

  it("holds 1,024 appends and not one more", () => {
    const queue = new FairQueue();
    const one = context("a", "/1", times(1_025));
    queue.add(one);
    expect(total(queue.takeGroup())).toBe(queueLimits.groupAppends);
    expect(one).toMatchObject({ state: "taken", length: 1 });
  });

  it("holds 1 MiB and not one byte more", () => {
    const queue = new FairQueue();
    const half = queueLimits.groupBytes / 2;
    queue.add(context("a", "/1", [append(half), append(half), append(1)]));
    expect(shape(queue.takeGroup())).toEqual([["a /1", 2]]);
    queue.add(context("b", "/1", [append(half), append(half + 1)]));
    expect(shape(queue.takeGroup())).toEqual([["b /1", 1]]);
  });

  it("gives every owner a turn, however much one of them has waiting", () => {
    const queue = new FairQueue();
    for (let n = 0; n < 100; n += 1) queue.add(context("greedy", `/${n}`, times(200)));
    queue.add(context("modest", "/", times(3)));
    const group = queue.takeGroup();
    expect(total(group)).toBe(queueLimits.groupAppends);
    expect(shape(group)).toContainEqual(["modest /", 3]);
  });

  it("gives every context of an owner a turn", () => {
    const queue = new FairQueue();
    queue.add(context("a", "/hot", times(5_000)));
    for (let n = 0; n < 10; n += 1) queue.add(context("a", `/${n}`, times(1)));
    const group = queue.takeGroup();
    expect(group).toHaveLength(11);
    expect(total(group)).toBe(queueLimits.groupAppends);
  });

  it("leaves an append of more than 1 MiB to its own connection, and what follows it in its context behind it", () => {
    const queue = new FairQueue();
    const large = context("a", "/large", [append(queueLimits.groupBytes + 1), append()]);
    const after = context("a", "/after", [append(), append(queueLimits.groupBytes + 1), append()]);
    queue.add(large);
    queue.add(after);
    expect(shape(queue.takeGroup())).toEqual([["a /after", 1]]);
    expect(queue.takeLarge()).toEqual([large]);
    expect(large).toMatchObject({ state: "taken", length: 2 });
    expect(queue.takeGroup()).toEqual([]);
    expect(after.length).toBe(2);
  });

  it("takes an append that is to be alone by itself, in turns with the others", () => {
    const queue = new FairQueue();
    queue.add(context("a", "/suspect", [append(100, true), append(100, true)]));
    queue.add(context("a", "/other", times(2)));
    expect(shape(queue.takeGroup())).toEqual([["a /other", 2]]);
    queue.add(context("b", "/more", times(1)));
    expect(shape(queue.takeGroup())).toEqual([["a /suspect", 1]]);
    expect(shape(queue.takeGroup())).toEqual([["b /more", 1]]);
  });

  it("stops at an append whose bodies are still examined", () => {
    const queue = new FairQueue();
    const examined = pending();
    const one = context("a", "/1", [append(), examined, append()]);
    queue.add(one);
    expect(shape(queue.takeGroup())).toEqual([["a /1", 1]]);
    expect(one.next).toBeUndefined();
    examined.complete([]);
    expect(one.next).toBe(examined);
  });
});

describe("the appends of a context", () => {
  it("go back in front, in their order", () => {
    const all = times(600);
    const one = context("a", "/", all);
    const taken = Array.from({ length: 400 }, () => one.shift());
    one.putBack(taken.slice(10));
    expect(one.drain()).toEqual(all.slice(10));
  });
});
