/** The watermark against the real log: what it passes is found again by the next owner. */
import { partitionOf } from "@iterate-platform/service/ids";
import { eventually } from "@iterate-platform/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
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
const row = async (project: TestProject): Promise<{ behind_through: string | null; cursor: string } | undefined> =>
  (
    await query<{ behind_through: string | null; cursor: string }>(
      platform.runnerDatabase.url,
      "select behind_through, cursor from delivery where owner = $1",
      [project.owner],
    )
  )[0];
const position = async (project: TestProject): Promise<string> =>
  (
    await query<{ position: string }>(platform.runnerDatabase.url, "select position from watermark where partition = $1", [
      partitionOf(project.owner, "/a"),
    ])
  )[0]!.position;

/** A runner whose processor never ends is left behind by the watermark; then it is gone. Answers the tick it never delivered. */
async function leaveBehind(project: TestProject): Promise<number> {
  const before = await position(project);
  const began = Promise.withResolvers<void>();
  const stuck = await startRunner(platform, {
    env: { FEED_SWEEP_MS: "300" },
    processors: {
      counter: () =>
        new Scripted(async ({ event }) => {
          if (event?.type !== "tick") return;
          began.resolve();
          await new Promise(() => undefined);
        }),
    },
  });
  running.push(stuck);
  await project.subscribe("/a", "counter", { consumes: ["tick"] });
  const [tick] = await project.append("/a", { type: "tick" });
  await began.promise;
  await eventually(
    async () => (await position(project)) !== before && Number((await row(project))?.behind_through) >= tick!.offset,
    slow,
  );
  await stuck.stop();
  running.splice(0);
  return tick!.offset;
}

describe("a subscription that the watermark has left behind", () => {
  it("is found by its mark and delivered by the next owner", async () => {
    const project = platform.project("/a");
    const tick = await leaveBehind(project);
    running.push(await startRunner(platform, { processors: { counter: () => new Counter() } }));
    await eventually(async () => (await project.events("/a", "ticked")).length === 1, slow);
    await eventually(
      async () => (await row(project))?.behind_through === null && Number((await row(project))?.cursor) >= tick,
      slow,
    );
  }, 90_000);

  it("would be lost without its mark: what this file shows depends on it", async () => {
    const project = platform.project("/a");
    await leaveBehind(project);
    await query(platform.runnerDatabase.url, "update delivery set behind_through = null where owner = $1", [project.owner]);
    const heir = await startRunner(platform, { env: { FEED_SWEEP_MS: "300" }, processors: { counter: () => new Counter() } });
    running.push(heir);
    const witness = platform.project("/a");
    await witness.subscribe("/a", "counter", { consumes: ["tick"] });
    for (let round = 1; round <= 3; round += 1) {
      await witness.append("/a", { type: "tick" });
      await eventually(async () => (await witness.events("/a", "ticked")).length === round, slow);
    }
    expect(await project.events("/a", "ticked")).toEqual([]);
  }, 90_000);
});

describe("an idle subscription", () => {
  it("[iterate-54] leaves nothing due and nothing to be found at a take-over", async () => {
    const project = platform.project("/a");
    running.push(await startRunner(platform, { env: { FEED_SWEEP_MS: "300" }, processors: { counter: () => new Counter() } }));
    await project.subscribe("/a", "counter", { afterOffset: 0 });
    await project.append("/a", { type: "tick" });
    await eventually(async () => (await project.events("/a", "ticked")).length === 1, slow);
    const left = async () =>
      await query(
        platform.runnerDatabase.url,
        "select 1 from delivery where owner = $1 and (due_at is not null or behind_through is not null) union all select 1 from outbox join delivery on delivery.id = outbox.delivery_id where owner = $1",
        [project.owner],
      );
    await eventually(async () => (await left()).length === 0, slow);
  }, 60_000);
});
