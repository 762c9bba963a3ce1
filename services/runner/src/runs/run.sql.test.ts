import { fileURLToPath } from "node:url";
import { migrate } from "@iterate-platform/service/migrations";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { contextsOfLateRuns, contextsOfOlderRuns, runsInStep, type RunColumns } from "./run.sql.js";

const database = useTestDatabase();
let db: Pool;
beforeAll(async () => {
  await migrate({ url: database.url, dir: fileURLToPath(new URL("../../migrations", import.meta.url)) });
  db = createPool({ url: database.url, applicationName: "runs", max: 2 });
});
afterAll(() => db?.end(0));

const key = (path: string) => ({ owner: "prj_a", path });
async function inStep(path: string, epoch: bigint, open: readonly number[], deadlineMs = 60_000): Promise<unknown[]> {
  const runs = open.map((requestOffset) => ({ requestOffset, deadlineMs }));
  const { rows } = await db.query<RunColumns>(runsInStep(key(path), { partition: 3, epoch }, runs));
  return rows.map((row) => [Number(row.request_offset), Number(row.epoch), row.is_late]);
}

describe("rows of runs", () => {
  it("are made by the first owner that sees the run, and go when it has ended", async () => {
    expect(await inStep("/a", 5n, [2, 3])).toEqual([
      [2, 5, false],
      [3, 5, false],
    ]);
    expect(await inStep("/a", 6n, [3, 4])).toEqual([
      [3, 5, false],
      [4, 6, false],
    ]);
    expect(await inStep("/b", 6n, [])).toEqual([]);
    expect(await inStep("/a", 6n, [])).toEqual([]);
    expect(await inStep("/a", 7n, [3])).toEqual([[3, 7, false]]);
  });

  it("of a newer owner are not forgotten by one that is late", async () => {
    await inStep("/late", 8n, [2, 3]);
    expect(await inStep("/late", 7n, [2])).toEqual([[2, 8, false]]);
    expect(await inStep("/late", 8n, [2, 3])).toEqual([
      [2, 8, false],
      [3, 8, false],
    ]);
  });

  it("are found by an owner that takes over, and past their deadline, once for each context", async () => {
    await inStep("/old", 5n, [2, 3], 0);
    await inStep("/older", 4n, [2], 60_000);
    const older = async (after: string | null, limit = 10) =>
      (await db.query<{ path: string }>(contextsOfOlderRuns(3, 6n, after === null ? null : key(after), limit))).rows.map(
        ({ path }) => path,
      );
    expect(await older(null)).toEqual(["/old", "/older"]);
    expect(await older(null, 1)).toEqual(["/old"]);
    expect(await older("/old")).toEqual(["/older"]);
    const late = await db.query<{ partition: number; path: string }>(contextsOfLateRuns([3], 10));
    expect(late.rows).toEqual([{ partition: 3, owner: "prj_a", path: "/old" }]);
    expect((await db.query(contextsOfLateRuns([4], 10))).rows).toEqual([]);
    expect(await inStep("/old", 6n, [2, 3])).toEqual([
      [2, 5, true],
      [3, 5, true],
    ]);
  });
});
