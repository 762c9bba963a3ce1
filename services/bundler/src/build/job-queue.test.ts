import { describe, expect, it } from "vitest";
import { JobQueue } from "./job-queue.js";

/** A job that runs until it is told to end. */
function held(): { job: () => Promise<void>; end: () => void; started: Promise<void> } {
  let end!: () => void;
  let start!: () => void;
  const ended = new Promise<void>((resolve) => (end = resolve));
  const started = new Promise<void>((resolve) => (start = resolve));
  return { end, started, job: () => (start(), ended) };
}

const never = new AbortController().signal;

describe("a job queue", () => {
  it("runs and lets wait exactly as many as it says, in order of arrival", async () => {
    const queue = new JobQueue({ maxRunning: 2, maxWaiting: 2 });
    const jobs = Array.from({ length: 4 }, held);
    const order: number[] = [];
    const runs = jobs.map(({ job }, at) => queue.run(never, () => (order.push(at), job())));
    await Promise.all([jobs[0]!.started, jobs[1]!.started]);
    expect([queue.running, queue.waiting]).toEqual([2, 2]);
    await expect(queue.run(never, async () => undefined)).rejects.toMatchObject({ code: "OVERLOADED", retryAfterMs: 1000 });
    jobs[1]!.end();
    await jobs[2]!.started;
    for (const { end } of jobs) end();
    await Promise.all(runs);
    expect(order).toEqual([0, 1, 2, 3]);
    expect([queue.running, queue.waiting]).toEqual([0, 0]);
  });

  it("gives the turn of one who left to the next, and frees the turn of one that failed", async () => {
    const queue = new JobQueue({ maxRunning: 1, maxWaiting: 2 });
    const [first, third] = [held(), held()];
    const controller = new AbortController();
    const one = queue.run(never, first.job);
    const two = queue.run(controller.signal, async () => "never");
    const three = queue.run(never, third.job);
    controller.abort();
    await expect(two).rejects.toMatchObject({ code: "CANCELLED" });
    first.end();
    await one;
    await third.started;
    third.end();
    await three;
    await expect(queue.run(never, () => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
    expect(await queue.run(never, async () => "runs")).toBe("runs");
    await expect(queue.run(controller.signal, async () => "gone")).rejects.toMatchObject({ code: "CANCELLED" });
  });
});
