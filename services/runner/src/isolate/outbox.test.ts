import { expect, test } from "vitest";
import { Outbox } from "./outbox.js";

test("what was pushed comes out in order, and the reader ends after the close", async () => {
  const outbox = new Outbox<number>(100);
  void outbox.push(1, 1);
  setTimeout(() => {
    void outbox.push(2, 1);
    outbox.close();
    void outbox.push(3, 1);
  });
  const seen: number[] = [];
  for await (const item of outbox) seen.push(item);
  expect(seen).toEqual([1, 2]);
});

test("a writer waits above the mark and goes on once the reader is below it", async () => {
  const outbox = new Outbox<string>(10);
  const order: string[] = [];
  await outbox.push("full", 10);
  const waiting = outbox.push("over", 1).then(() => order.push("written"));
  await Promise.resolve();
  expect(order).toEqual([]);
  const reader = outbox[Symbol.asyncIterator]();
  await reader.next();
  await waiting;
  expect(order).toEqual(["written"]);
});

test("a reader that leaves releases every writer", async () => {
  const outbox = new Outbox<number>(1);
  const stuck = outbox.push(1, 5);
  for await (const item of outbox) {
    expect(item).toBe(1);
    break;
  }
  await stuck;
  await outbox.push(2, 5);
});
