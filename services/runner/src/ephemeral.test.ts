import { eventually } from "@iterate-platform/testing";
import { afterAll, beforeAll, expect, it } from "vitest";
import { TestPlatform } from "./platform.fixture.js";
import { Scripted, startRunner, type TestRunner } from "./runner.fixture.js";

let platform: TestPlatform;
let runner: TestRunner;
const seen: number[] = [];
beforeAll(async () => {
  platform = await TestPlatform.start();
  runner = await startRunner(platform, {
    processors: { scripted: () => new Scripted(({ event }) => void (event !== null && seen.push(event.offset))) },
  });
});
afterAll(async () => {
  await runner.stop();
  await platform.stop();
});

it("[iterate-55] delivers no ephemeral event to a subscription to everything, and goes on over the offsets they took", async () => {
  const project = platform.project("/a");
  const configured = await project.subscribe("/a", "scripted", { afterOffset: 0 });
  const frame = { type: "tick", payload: { percent: 40 }, ephemeral: true };
  const stored: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    const appended = await project.append("/a", frame, ...(n % 2 === 0 ? [{ type: "tick" }] : []), frame);
    stored.push(...appended.filter(({ ephemeral }) => ephemeral !== true).map(({ offset }) => offset));
  }
  const [last] = await project.append("/a", { type: "tick" });
  await eventually(() => seen.includes(last!.offset), { timeoutMs: 25_000, intervalMs: 50 });
  const wanted = (await project.events("/a")).map(({ offset }) => offset);
  expect(wanted).toEqual([1, configured.offset, ...stored, last!.offset]);
  expect(seen).toEqual(wanted.filter((offset) => seen.includes(offset)));
  expect([...stored, last!.offset].every((offset) => seen.includes(offset))).toBe(true);
  await runner.snapshots.waitUntilProcessed(
    { owner: project.owner, path: "/a" },
    "scripted",
    last!.offset,
    20_000,
    new AbortController().signal,
  );
});
