/** What subscriptions need is never given up: the runner's floors against the real log. */
import { eventually } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { query, TestPlatform, type TestProject } from "./platform.fixture.js";
import { Counter, Scripted, startRunner, type TestRunner } from "./runner.fixture.js";

let platform: TestPlatform;
beforeAll(async () => {
  platform = await TestPlatform.start();
});
afterAll(() => platform.stop());
const running: TestRunner[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((runner) => runner.stop()));
});

const slow = { timeoutMs: 30_000, intervalMs: 50 };
const keepFrom = (offset: number) => ({ type: itx.retentionConfigured.type, payload: { keepFrom: { offset } } });
/** First offsets of the truncations so far. */
const truncations = async (project: TestProject): Promise<number[]> =>
  (await project.events("/a", itx.logTruncated.type)).map(({ payload }) => (payload as { firstOffset: number }).firstOffset);

it("a log is shortened up to what its subscriptions were delivered, and goes on being delivered", async () => {
  const project = platform.project();
  running.push(await startRunner(platform, { processors: { counter: () => new Counter() } }));
  await project.subscribe("/a", "counter", { consumes: ["tick"] });
  const ticks = await project.append("/a", ...Array.from({ length: 20 }, () => ({ type: "tick" })));
  await eventually(async () => (await project.events("/a", "ticked")).length === 20, slow);
  await project.append("/a", keepFrom(ticks[15]!.offset));
  await eventually(async () => (await truncations(project)).at(-1) === ticks[15]!.offset, slow);
  const [next] = await project.append("/a", { type: "tick" });
  await eventually(
    async () => (await project.events("/a", "ticked")).some(({ payload }) => (payload as { of: number }).of === next!.offset),
    slow,
  );
});

it("an event that is not delivered yet is kept, also through another owner, and goes once it is", async () => {
  const project = platform.project();
  const release = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<number>();
  const scripted = (hold: boolean) => ({
    processors: {
      scripted: () =>
        new Scripted(async ({ event }) => {
          if (event?.type !== "stop") return;
          reached.resolve(event.offset);
          if (hold) await release.promise;
        }),
    },
  });
  const first = await startRunner(platform, scripted(true));
  running.push(first);
  await project.subscribe("/a", "scripted");
  await project.append("/a", { type: "tick" }, { type: "tick" });
  const [stop] = await project.append("/a", { type: "stop" });
  await project.append("/a", { type: "tick" }, { type: "tick" });
  expect(await reached.promise).toBe(stop!.offset);
  const [wish] = await project.append("/a", keepFrom(1_000_000));
  await eventually(async () => {
    const [row] = await query<{ reports_floor: boolean; cursor: string }>(
      platform.runnerDatabase.url,
      "select reports_floor, cursor from delivery where owner = $1",
      [project.owner],
    );
    return row!.reports_floor && Number(row!.cursor) < stop!.offset;
  }, slow);
  release.reject(new Error("the owner goes"));
  await first.stop();
  running.splice(0);
  for (const firstOffset of await truncations(project)) expect(firstOffset).toBeLessThanOrEqual(stop!.offset);
  running.push(await startRunner(platform, scripted(false)));
  await eventually(async () => (await truncations(project)).some((firstOffset) => firstOffset > wish!.offset), slow);
});
