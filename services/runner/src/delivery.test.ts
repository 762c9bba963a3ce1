import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import { eventually } from "@iterate-platform/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { TestPlatform } from "./platform.fixture.js";
import { Counter, Scripted, startRunner, type ScriptedArgs, type TestRunner, type TestRunnerOptions } from "./runner.fixture.js";

let platform: TestPlatform;
beforeAll(async () => {
  platform = await TestPlatform.start();
});
afterAll(() => platform.stop());

const running: TestRunner[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((runner) => runner.stop()));
});

async function runner(processors: TestRunnerOptions["processors"], options: TestRunnerOptions = {}): Promise<TestRunner> {
  const started = await startRunner(platform, { ...options, processors: processors ?? {} });
  running.push(started);
  return started;
}

const scripted = (script: (args: ScriptedArgs) => unknown) => ({ scripted: () => new Scripted(script) });
const snapshot = async (of: TestRunner, owner: string, path: string, name: string) => of.snapshots.snapshot({ owner, path }, name);
const halted = itx.subscriptionDeliveryHalted.type;

describe("delivery to a native processor", () => {
  it("folds every event once and emits once for each", async () => {
    const project = platform.project();
    const of = await runner({ counter: () => new Counter() });
    await project.subscribe("/a", "counter", { afterOffset: 0 });
    for (let n = 0; n < 20; n += 1) await project.append("/a", { type: "tick", payload: { n } }, { type: "noise" });
    await eventually(async () => (await project.events("/a", "ticked")).length === 20);
    const ticks = (await project.events("/a", "tick")).map(({ offset }) => offset);
    expect(await snapshot(of, project.owner, "/a", "counter")).toMatchObject({ state: { count: 20, offsets: ticks } });
    const emitted = await project.events("/a", "ticked");
    expect(emitted.map(({ payload }) => (payload as { of: number }).of)).toEqual(ticks);
    expect(emitted[0]).toMatchObject({ source: { origin: "/a", cause: { depth: 1 }, processor: { slug: "counter", version: "1", whileProcessing: { offset: ticks[0], type: "tick" } } } });
  });
});
