/** The restore drill: a backup of the log is put back while the runner keeps what it knew, and everything goes on. */
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { AdminServiceClient } from "@iterate-platform/proto/iterate/context/v1/admin";
import { createClient } from "@iterate-platform/service/grpc-client";
import { eventually, startPrivatePostgres, type PrivatePostgres } from "@iterate-platform/testing";
import type { StreamEvent } from "iterate/api";
import { itx } from "iterate/events";
import { afterAll, beforeAll, expect, it } from "vitest";
import { TestPlatform, type TestProject } from "./platform.fixture.js";
import { Counter, startRunner, type TestRunner } from "./runner.fixture.js";

let postgres: PrivatePostgres;
let platform: TestPlatform;
beforeAll(async () => {
  postgres = await startPrivatePostgres({ settings: { fsync: "on" } });
  platform = await TestPlatform.start(await postgres.createDatabase());
}, 120_000);
afterAll(async () => {
  await platform?.stop();
  await postgres?.stop();
});

/** With owners and modes, which the server insists on. */
const copy = (from: string, to: string): void => void execFileSync("cp", ["-a", from, to]);
const slow = { timeoutMs: 30_000, intervalMs: 50 };
const runner = (): Promise<TestRunner> => startRunner(platform, { processors: { counter: () => new Counter() } });
const ticked = async (project: TestProject, tick: StreamEvent): Promise<boolean> =>
  (await project.events("/a", "ticked")).filter(({ payload }) => (payload as { of: number }).of === tick.offset).length === 1;

it("after a restore no offset is given again, and every subscription goes on", { timeout: 180_000 }, async () => {
  const { dataDir } = postgres.server;
  const backup = `${dataDir}.backup`;
  const project = platform.project();
  let working = await runner();
  await project.subscribe("/a", "counter", { consumes: ["tick"] });
  const [first] = await project.append("/a", { type: "tick", idempotencyKey: "first" });
  await eventually(() => ticked(project, first!), slow);

  // A backup that holds one more event than the runner was told of.
  await working.stop();
  const [kept] = await project.append("/a", { type: "tick" });
  await platform.context.end();
  await postgres.server.stop();
  copy(dataDir, backup);
  await postgres.start();
  await platform.startContext();
  working = await runner();
  const lost: StreamEvent[] = [];
  for (let n = 0; n < 20; n += 1) lost.push(...(await project.append("/a", { type: "tick" })));
  await eventually(() => ticked(project, lost.at(-1)!), slow);
  const seen = (await project.events("/a")).map(({ offset }) => offset);

  await working.stop();
  await platform.context.end();
  await postgres.server.stop();
  rmSync(dataDir, { recursive: true });
  copy(backup, dataDir);
  await postgres.start();
  await platform.startContext();
  const admin = createClient(AdminServiceClient, platform.contextUrl, {
    trust: await platform.keys.trustOf("ingress"),
    audience: "context",
  });
  await expect(admin.declareLogRestored({})).rejects.toMatchObject({ code: "FORBIDDEN" });
  expect(await admin.declareLogRestored({}, { principal: "admin" })).toEqual({ generations: [2] });
  admin.close();

  const before = await project.events("/a");
  const head = before.at(-1)!.offset;
  expect(head).toBe(kept!.offset);
  expect(await project.append("/a", { type: "tick", idempotencyKey: "first" })).toMatchObject([{ offset: first!.offset }]);
  const [next] = await project.append("/a", { type: "tick" });
  const [restored] = (await project.events("/a")).filter(({ type }) => type === itx.logRestored.type);
  expect(restored).toMatchObject({ offset: head + 1 + 2 ** 20, payload: { lostAfter: head }, source: { platform: true } });
  expect(next!.offset).toBe(restored!.offset + 1);

  working = await runner();
  await eventually(() => ticked(project, next!), slow);
  const [last] = await project.append("/a", { type: "tick" });
  await eventually(() => ticked(project, last!), slow);
  const now = (await project.events("/a")).map(({ offset }) => offset);
  for (const offset of seen.filter((offset) => offset > head)) expect(now).not.toContain(offset);
  expect((await project.events("/a", itx.logRestored.type)).length).toBe(1);
  await working.stop();
});
