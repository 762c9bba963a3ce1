import { describe, expect, test } from "vitest";
import { VirtualTime } from "./simulation/virtual-time.js";
import { DueBell } from "../src/schedules/due-bell.js";
import type { Round, ScheduleFirer } from "../src/schedules/firer.js";
import { runSchedules } from "../src/schedules/run.js";
import type { DueSweeper } from "../src/schedules/sweeper.js";

/** Runs the loop for `ms` of virtual time over rounds that answer as told; answers when each began. */
async function roundsWithin(
  ms: number,
  answer: (round: number) => Round,
  during: (time: VirtualTime, bell: DueBell) => void = () => undefined,
) {
  const time = new VirtualTime();
  const bell = new DueBell();
  const stopping = new AbortController();
  const at: number[] = [];
  const sweptAt: number[] = [];
  const failures: unknown[] = [];
  let isOver = false;
  const firer = { round: async () => answer(at.push(time.nowMs()) - 1) } as unknown as ScheduleFirer;
  const sweeper = { round: async () => void sweptAt.push(time.nowMs()) } as unknown as DueSweeper;
  const options = { firer, sweeper, bell, sweepMs: 5_000, timers: time, stopping: stopping.signal };
  void runSchedules({ ...options, onRound: () => undefined, onFailure: (error) => failures.push(error) }).then(
    () => (isOver = true),
  );
  during(time, bell);
  time.after(ms, () => stopping.abort());
  await time.run(() => isOver);
  return { at, sweptAt, failures };
}

const idle: Round = { isFull: false, nextInMs: null };

describe("the loop of schedules", () => {
  test("looks every second, and sweeps every few", async () => {
    const { at, sweptAt } = await roundsWithin(10_500, () => idle);
    expect(at).toEqual([0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000]);
    expect(sweptAt).toEqual([5_000, 10_000]);
  });

  test("looks when the next is due, and at once while there is more", async () => {
    const { at } = await roundsWithin(400, (round) => ({ isFull: round === 0, nextInMs: round === 1 ? 150.2 : null }));
    expect(at).toEqual([0, 0, 151]);
  });

  test("looks soon after a commit that changed what is due, once for many of them", async () => {
    const { at } = await roundsWithin(
      900,
      () => idle,
      (time, bell) => {
        for (const ms of [100, 101, 105, 500]) time.after(ms, () => bell.ring());
      },
    );
    // What rang during the pause may be later than the look.
    expect(at).toEqual([0, 110, 120, 510]);
  });

  test("goes on after a round that failed", async () => {
    const { at, failures } = await roundsWithin(1_500, (round) => {
      if (round === 0) throw new Error("the database is away");
      return idle;
    });
    expect([at, failures.length]).toEqual([[0, 1_000], 1]);
  });
});
