/** Open runs over ends of their runner: each is ended once, by the owner that comes after the one that had taken it up, or at its deadline. */
import { eventually } from "@iterate-platform/testing";
import type { ServiceProcess } from "@iterate-platform/testing/service-process";
import { itx } from "iterate/events";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
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
    ...env,
  });
  running.push(started);
  return started;
}

const slow = { timeoutMs: 40_000, intervalMs: 100 };
const request = { type: itx.runRequested.type, payload: { code: "1 + 1" } };

interface Ended {
  requestOffset: number;
  settlement: { failureKind: string };
}
const ends = async (project: TestProject): Promise<Ended[]> =>
  (await project.events("/a", itx.runSettled.type)).map(({ payload }) => payload as Ended);
const incarnations = async (project: TestProject) => (await project.events("/a", itx.woken.type)).map(({ payload }) => payload);

interface Row {
  request_offset: string;
  epoch: string;
}
const rowsOf = (project: TestProject): Promise<Row[]> =>
  query<Row>(platform.runnerDatabase.url, "select request_offset, epoch from run where owner = $1 order by request_offset", [
    project.owner,
  ]);
const takenUp = (project: TestProject, offsets: readonly number[]): Promise<unknown> =>
  eventually(async () => {
    expect((await rowsOf(project)).map(({ request_offset }) => Number(request_offset))).toEqual(offsets);
    return true;
  }, slow);

describe("[iterate-26] a later incarnation", () => {
  it(
    "is one record that ends exactly the runs of the former one, in one commit, where there are any",
    { timeout: 120_000 },
    async () => {
      const [busy, idle] = [platform.project("/a"), platform.project("/a")];
      const first = await runner();
      const [one, two] = await busy.append("/a", request, request);
      await idle.append("/a", { type: "test/a" });
      await takenUp(busy, [one!.offset, two!.offset]);
      expect((await busy.events("/a")).map(({ type }) => type)[0]).toBe(itx.created.type);
      expect(await incarnations(busy)).toEqual([]);
      await first.end("SIGKILL");

      // Asked for while nobody is there: it was never taken up, so it does not end.
      const [three] = await busy.append("/a", request);
      await runner();
      await eventually(async () => (await ends(busy)).length === 2, slow);
      await takenUp(busy, [three!.offset]);
      expect(await ends(busy)).toMatchObject(
        [one, two].map((each) => ({ requestOffset: each!.offset, settlement: { failureKind: "interrupted" } })),
      );
      const [{ epoch }] = (await rowsOf(busy)) as [Row];
      expect(await incarnations(busy)).toEqual([{ incarnation: Number(epoch), cause: "take-over" }]);
      const [last, ...others] = (await busy.events("/a")).slice(-3).reverse();
      expect([last!.type, ...others.map(({ type }) => type)]).toEqual([itx.runSettled.type, itx.runSettled.type, itx.woken.type]);
      expect(new Set([last, ...others].map((each) => each!.createdAt)).size).toBe(1);
      expect((await idle.events("/a")).map(({ type }) => type)).toEqual([itx.created.type, "test/a"]);
    },
  );

  it("ends nothing because a context is let go and looked up again by the same owner", { timeout: 120_000 }, async () => {
    const project = platform.project("/a");
    await runner();
    const [run] = await project.append("/a", request);
    await takenUp(project, [run!.offset]);
    // Control commits make the owner look it up anew.
    for (let n = 0; n < 5; n += 1) await project.append("/a", request);
    await takenUp(
      project,
      [0, 1, 2, 3, 4, 5].map((n) => run!.offset + n),
    );
    expect(await ends(project)).toEqual([]);
    expect(await incarnations(project)).toEqual([]);
  });

  it("ends a run once, whenever runners are killed", { timeout: 180_000 }, async () => {
    const project = platform.project("/a");
    const asked: number[] = [];
    for (let round = 0; round < 4; round += 1) {
      const current = await runner(round % 2 === 0 ? {} : { FAILPOINTS: "partition.taken-over=kill" });
      const events = await project.append("/a", request, request);
      asked.push(...events.map(({ offset }) => offset));
      if (round % 2 === 0) await eventually(async () => (await rowsOf(project)).length > 0, slow);
      await current.end("SIGKILL");
    }
    await runner();
    // What a former owner had taken up has ended; the rest is this one's.
    await eventually(async () => {
      const rows = await rowsOf(project);
      expect(rows.length + (await ends(project)).length).toBe(asked.length);
      expect(new Set(rows.map(({ epoch }) => epoch)).size).toBeLessThanOrEqual(1);
      expect(
        new Set([...rows.map((row) => Number(row.request_offset)), ...(await ends(project)).map((end) => end.requestOffset)]),
      ).toEqual(new Set(asked));
      return true;
    }, slow);
    expect((await ends(project)).length).toBeGreaterThan(0);
    const woken = (await incarnations(project)) as { incarnation: number }[];
    expect(woken.map(({ incarnation }) => incarnation)).toEqual(
      woken.map(({ incarnation }) => incarnation).toSorted((a, b) => a - b),
    );
    expect(new Set(woken.map(({ incarnation }) => incarnation)).size).toBe(woken.length);
  });
});

describe("the deadline of a run", () => {
  it("ends it, and no other", { timeout: 60_000 }, async () => {
    const project = platform.project("/a");
    await runner();
    const [long, short] = await project.append("/a", request, {
      type: itx.runRequested.type,
      payload: { code: "1 + 1", deadlineMs: 300 },
    });
    await eventually(async () => (await ends(project)).length === 1, slow);
    expect(await ends(project)).toMatchObject([{ requestOffset: short!.offset, settlement: { failureKind: "deadline" } }]);
    await takenUp(project, [long!.offset]);
    expect(await incarnations(project)).toEqual([]);
  });
});
