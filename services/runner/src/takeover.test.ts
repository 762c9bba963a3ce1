import { eventually } from "@iterate-platform/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { ServiceProcess } from "@iterate-platform/testing/service-process";
import { query, startService, TestPlatform, type TestProject } from "./platform.fixture.js";

let platform: TestPlatform;
beforeAll(async () => {
  platform = await TestPlatform.start();
});
afterAll(() => platform.stop());

const running: ServiceProcess[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((process) => process.end("SIGKILL")));
});

async function runner(env: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
  const started = await startService(new URL("./runner-process.fixture.ts", import.meta.url).pathname, {
    DATABASE_URL: platform.runnerDatabase.url,
    NATS_URL: platform.nats.url,
    CONTEXT_URL: platform.contextUrl,
    GRPC_LISTEN: "127.0.0.1:0",
    ITERATE_SERVICE_KEY_FILE: platform.keys.keyFile("runner"),
    ITERATE_TRUSTED_KEYS_FILE: platform.keys.trustedKeysFile,
    LEASE_TTL_MS: "2000",
    FEED_SWEEP_MS: "3000",
    DELIVERY_RETRY_BASE_MS: "20",
    ...env,
  });
  running.push(started);
  return started;
}

const slow = { timeoutMs: 40_000, intervalMs: 100 };
const emitted = async (project: TestProject): Promise<number[]> =>
  (await project.events("/a", "ticked")).map(({ payload }) => (payload as { of: number }).of);
const counted = async (project: TestProject): Promise<unknown> => {
  const rows = await query<{ state: string }>(
    platform.runnerDatabase.url,
    "select state from checkpoint join delivery on delivery.id = checkpoint.delivery_id where owner = $1",
    [project.owner],
  );
  return rows[0] === undefined ? undefined : JSON.parse(rows[0].state);
};

/** Every tick is emitted for once and counted once. */
async function expectExactlyOnce(project: TestProject): Promise<void> {
  const ticks = (await project.events("/a", "tick")).map(({ offset }) => offset);
  await eventually(async () => (await emitted(project)).length >= ticks.length, slow);
  expect(await emitted(project)).toEqual(ticks);
  expect(await counted(project)).toEqual({ count: ticks.length, offsets: ticks });
}

describe("a runner that dies", () => {
  it.each([
    ["[iterate-48] between claim and commit", "delivery.before-commit"],
    ["after the commit, before its events are sent", "delivery.after-commit"],
    ["after its events are sent, before they are forgotten", "outbox.before-settle"],
  ])(
    "%s: its heir emits once and counts once",
    async (_, point) => {
      const project = platform.project("/a");
      const first = await runner({ FAILPOINTS: `${point}=kill` });
      await project.subscribe("/a", "counter", { afterOffset: 0 });
      await project.append("/a", { type: "tick" }, { type: "tick" }, { type: "tick" });
      await first.exited;
      await runner();
      await expectExactlyOnce(project);
      await project.append("/a", { type: "tick" });
      await expectExactlyOnce(project);
    },
    120_000,
  );

  it("is survived by two others that share its partitions", async () => {
    const projects = Array.from({ length: 6 }, () => platform.project("/a"));
    const first = await runner();
    for (const project of projects) await project.subscribe("/a", "counter", { afterOffset: 0 });
    await Promise.all([runner(), runner()]);
    for (let round = 0; round < 4; round += 1) {
      await Promise.all(projects.map((project) => project.append("/a", { type: "tick" }, { type: "tick" })));
      if (round === 1) await first.end("SIGKILL");
    }
    for (const project of projects) await expectExactlyOnce(project);
  }, 120_000);

  it("by SIGTERM hands over before its leases lapse", async () => {
    const project = platform.project("/a");
    const first = await runner({ LEASE_TTL_MS: "60000" });
    await project.subscribe("/a", "counter", { afterOffset: 0 });
    await project.append("/a", { type: "tick" });
    await eventually(async () => (await emitted(project)).length === 1, slow);
    await first.end("SIGTERM");
    expect(
      await query(platform.runnerDatabase.url, "select 1 from partition_lease where partition < 16 and pod is not null"),
    ).toEqual([]);
    await runner();
    await project.append("/a", { type: "tick" });
    await expectExactlyOnce(project);
  }, 120_000);
});

describe("a runner that was frozen past its leases", () => {
  it("lands nothing of what it had in hand", async () => {
    const project = platform.project("/a");
    const frozen = await runner();
    await project.subscribe("/a", "counter", { afterOffset: 0 });
    await project.append("/a", { type: "tick" });
    await eventually(async () => (await emitted(project)).length === 1, slow);
    frozen.signal("SIGSTOP");
    await project.append("/a", { type: "tick" }, { type: "tick" });
    await runner();
    await expectExactlyOnce(project);
    frozen.signal("SIGCONT");
    await project.append("/a", { type: "tick" });
    await expectExactlyOnce(project);
    const stale = await query<{ epoch: string; lease: string }>(
      platform.runnerDatabase.url,
      "select delivery.epoch, lease.epoch as lease from delivery join partition_lease lease using (partition) where owner = $1",
      [project.owner],
    );
    expect(stale[0]?.epoch).toBe(stale[0]?.lease);
  }, 120_000);
});
