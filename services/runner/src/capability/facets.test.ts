/** The root `facets` over what a runner has really processed. */
import { evaluate } from "@iterate-platform/service/capability-calls";
import { rootGaps } from "@iterate-platform/service/capability-gaps";
import { rootMessage } from "@iterate-platform/service/capability-service";
import type { CapabilityCall } from "@iterate-platform/service/capability";
import type { Step } from "iterate/expression";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestPlatform } from "../platform.fixture.js";
import { Counter, startRunner, type TestRunner } from "../runner.fixture.js";
import { facetsRoot } from "./facets.js";

let platform: TestPlatform;
let runner: TestRunner;

beforeAll(async () => {
  platform = await TestPlatform.start();
  runner = await startRunner(platform, { processors: { counter: () => new Counter() } });
}, 60_000);

afterAll(async () => {
  await runner?.stop();
  await platform?.stop();
});

test("its words are all that somebody needs who calls it", () => {
  expect(rootGaps(rootMessage(facetsRoot({} as never)))).toEqual([]);
});

test("a processor is read by its name once it has processed an offset, and a name nobody hosts is said to be none", async () => {
  const project = platform.project("/a");
  const configured = await project.subscribe("/a", "counter", { afterOffset: 0 });
  const [tick] = await project.append("/a", { type: "tick" });
  const call: CapabilityCall = {
    address: { owner: project.owner, path: "/a" },
    callerPath: "/a",
    caller: { service: "context" },
    credentials: {},
    signal: AbortSignal.timeout(20_000),
  };
  const answer = (...steps: Step[]): Promise<unknown> => evaluate(facetsRoot(runner.snapshots), ["facets", ...steps], call);
  await answer(["get", "counter"], ["waitUntilProcessed", { offset: tick!.offset }]);
  const { value } = (await answer(["get", "counter"], ["snapshot"])) as { value: { offset: number } };
  expect(value.offset).toBeGreaterThanOrEqual(tick!.offset);
  expect(configured.offset).toBeLessThan(value.offset);
  expect(await answer(["get", "counter"], ["snapshot"], "offset")).toEqual({ kind: "value", value: value.offset });
  await expect(answer(["get", "other"], ["snapshot"])).rejects.toMatchObject({ code: "NO_FACET" });
  await expect(answer(["get", "counter"], ["snapshoot"])).rejects.toMatchObject({
    code: "NOT_A_METHOD",
    message: expect.stringMatching(/did you mean snapshot\?/) as unknown,
  });
  await expect(answer(["get", "counter"])).rejects.toMatchObject({ code: "NOT_A_METHOD" });
});
