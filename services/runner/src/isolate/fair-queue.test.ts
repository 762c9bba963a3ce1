import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FairQueue } from "./fair-queue.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("lanes are served in turn, each in order of arrival", async () => {
  const queue = new FairQueue({ waiting: 10, waitMs: 1_000 });
  const served: string[] = [];
  for (const name of ["a1", "a2", "a3", "b1"]) void queue.wait(name[0]!).then(() => served.push(name));
  while (queue.wake()) await Promise.resolve();
  await Promise.resolve();
  expect(served).toEqual(["a1", "b1", "a2", "a3"]);
  expect(queue.size).toBe(0);
});

test("one waiter more than the bound is OVERLOADED at once", async () => {
  const queue = new FairQueue({ waiting: 2, waitMs: 1_000 });
  const waiting = [queue.wait("a"), queue.wait("b")];
  await expect(queue.wait("c")).rejects.toMatchObject({ code: "OVERLOADED", message: expect.stringContaining("2 invocations") });
  queue.wake();
  queue.wake();
  await Promise.all(waiting);
});

test("a wait ends as OVERLOADED at its bound, and frees its place", async () => {
  const queue = new FairQueue({ waiting: 1, waitMs: 1_000 });
  const late = expect(queue.wait("a")).rejects.toMatchObject({ code: "OVERLOADED" });
  await vi.advanceTimersByTimeAsync(999);
  expect(queue.size).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  await late;
  expect(queue.size).toBe(0);
  expect(queue.wake()).toBe(false);
});

test("an aborted waiter leaves with the reason, and the next one is served", async () => {
  const queue = new FairQueue({ waiting: 3, waitMs: 1_000 });
  const abort = new AbortController();
  const gone = expect(queue.wait("a", abort.signal)).rejects.toThrow("went away");
  const next = queue.wait("a");
  abort.abort(new Error("went away"));
  await gone;
  queue.wake();
  await next;
  await expect(queue.wait("a", abort.signal)).rejects.toThrow("went away");
});
