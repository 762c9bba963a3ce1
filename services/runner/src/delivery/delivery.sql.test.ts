import { createPool, type Pool, type Statement } from "@iterate-platform/service/postgres";
import { migrate } from "@iterate-platform/service/migrations";
import { uuidv7 } from "@iterate-platform/service/ids";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { clean } from "./charge.js";
import type { DeliveryRow, OwedEvent } from "./contract.js";
import {
  checkpointOf,
  commitBatch,
  commitSetback,
  contextsDue,
  contextsNotAtRest,
  deliveryRow,
  insertRow,
  markBehind,
  moveCursor,
  reconfigureRow,
  rowById,
  rowsOfContext,
  type BatchCommit,
  type DeliveryColumns,
  type Fence,
} from "./delivery.sql.js";
import { buryOwed, owedBy, owedEvent, settleOwed, type OwedColumns } from "./outbox.sql.js";
import { storeWatermarks, watermarks } from "../intake/watermark.sql.js";

const database = useTestDatabase();
let db: Pool;

beforeAll(async () => {
  await migrate({ url: database.url, dir: new URL("../../migrations", import.meta.url).pathname });
  db = createPool({ url: database.url, applicationName: "test", max: 4 });
});
afterAll(() => db.end());

let place = 0;
let row: DeliveryRow;
beforeEach(async () => {
  place += 1;
  const key = { owner: "prj_test", path: `/context/${place}` };
  await db.query(
    insertRow({ ...key, partition: 7, name: "triage", configuredAt: 4, host: "facet:triage", cursor: 0, resumedAt: 0, epoch: 5n }),
  );
  row = (await db.query<DeliveryColumns>(rowsOfContext(key))).rows.map(deliveryRow)[0]!;
});

const fence = (change: Partial<Fence> = {}): Fence => ({ id: row.id, epoch: 5n, version: row.version, ...change });
const owed = (): OwedEvent => ({
  id: uuidv7(),
  kind: "emit",
  event: Buffer.from("event"),
  code: "config@d1",
  cause: { chain: "c", depth: 1 },
  principal: null,
  traceparent: "",
});
const batch = (change: Partial<BatchCommit> = {}): BatchCommit => ({
  cursor: 9,
  caughtUp: true,
  charge: clean,
  checkpoint: { version: "1", state: "{}" },
  owed: [owed()],
  ...change,
});
const read = async (): Promise<DeliveryRow> => deliveryRow((await db.query<DeliveryColumns>(rowById(row.id))).rows[0]!);
const owes = async (): Promise<OwedEvent[]> => (await db.query<OwedColumns>(owedBy(row.id, 100))).rows.map(owedEvent);

describe("committing a batch", () => {
  it("moves cursor, state and outbox in one statement", async () => {
    const events = [owed(), owed(), owed()];
    expect((await db.query(commitBatch(fence(), batch({ owed: events })))).rowCount).toBe(1);
    expect(await read()).toMatchObject({ cursor: 9, status: "active", version: 2n, epoch: 5n });
    expect((await owes()).map(({ id }) => id)).toEqual(events.map(({ id }) => id));
    expect((await db.query(checkpointOf(row.id))).rows).toEqual([{ version: "1", state: "{}" }]);
  });

  it.each([
    ["a version that was seen too early", { version: 0n }],
    ["an epoch that was overtaken", { epoch: 4n }],
  ])("changes nothing at all for %s", async (_, stale) => {
    expect((await db.query(commitBatch(fence(stale), batch()))).rowCount).toBe(0);
    expect(await read()).toEqual({ ...row, dueInMs: null });
    expect(await owes()).toEqual([]);
    expect((await db.query(checkpointOf(row.id))).rows).toEqual([]);
  });

  it("keeps the state of a batch that changed none", async () => {
    await db.query(commitBatch(fence(), batch({ owed: [] })));
    await db.query(commitBatch(fence({ version: 2n }), batch({ cursor: 12, checkpoint: null, owed: [] })));
    expect(await read()).toMatchObject({ cursor: 12, version: 3n });
    expect((await db.query(checkpointOf(row.id))).rows).toEqual([{ version: "1", state: "{}" }]);
  });

  it("lets exactly one of two owners land, whoever comes second while the first holds the row", async () => {
    expect(await staleCommitLands(commitBatch)).toBe(false);
  });

  it("catches an epoch looked up in the lease table by sub-select: that stale commit lands", async () => {
    const bySubSelect = (at: Fence, commit: BatchCommit): Statement => {
      const statement = commitBatch(at, commit);
      const text = statement.text.replace(
        "where id = $1 and epoch <= $2 and version = $3",
        "where id = $1 and $2 >= (select epoch from partition_lease where partition = 7) and $3 > 0",
      );
      expect(text).not.toBe(statement.text);
      return { text, ...(statement.values === undefined ? {} : { values: statement.values }) };
    };
    expect(await staleCommitLands(bySubSelect)).toBe(true);
  });
});

/**
 * The new owner takes the lease and commits while the old owner's statement is already waiting for the row: true when the old
 * owner's write lands on top.
 */
async function staleCommitLands(commit: (fence: Fence, batch: BatchCommit) => Statement): Promise<boolean> {
  await db.query("update partition_lease set epoch = 5 where partition = 7");
  const newOwner = await db.connect();
  try {
    await newOwner.query("begin");
    await newOwner.query("update partition_lease set epoch = 6 where partition = 7");
    await newOwner.query(commitBatch(fence({ epoch: 6n }), batch({ cursor: 9, owed: [] })));
    const stale = db.query(commit(fence({ epoch: 5n }), batch({ cursor: 3, owed: [] })));
    await waitsForLock();
    await newOwner.query("commit");
    await stale;
  } finally {
    newOwner.release();
  }
  return (await read()).cursor === 3;
}

async function waitsForLock(): Promise<void> {
  for (let look = 0; look < 500; look += 1) {
    const { rows } = await db.query(
      "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
    );
    if (rows.length > 0) return;
    await new Promise(setImmediate);
  }
  throw new Error("the second commit never waited for the first");
}

describe("setbacks", () => {
  it("set what is due and owe their facts, and a success clears both marks", async () => {
    await db.query(
      commitSetback(fence(), {
        status: "retrying",
        charge: { ...clean, attempt: 2, charged: 1, width: 1, narrowThrough: 9, suspect: true },
        dueInMs: 60_000,
        error: { code: "CODE_FAILED", message: "no" },
        owed: [{ ...owed(), kind: "fact" }],
      }),
    );
    const failed = await read();
    expect(failed).toMatchObject({
      status: "retrying",
      cursor: 0,
      charge: { attempt: 2, charged: 1, width: 1, narrowThrough: 9, suspect: true },
    });
    expect(failed.dueInMs).toBeGreaterThan(50_000);
    expect(await owes()).toHaveLength(1);
    await db.query(commitBatch(fence({ version: 2n }), batch()));
    expect(await read()).toMatchObject({ status: "active", dueInMs: null, charge: clean });
  });

  it("answer as due by the database clock", async () => {
    await db.query(
      commitSetback(fence(), { status: "retrying", charge: clean, dueInMs: -1, error: { code: "X", message: "" }, owed: [] }),
    );
    const due = (await db.query<{ path: string }>(contextsDue([7], 1_000))).rows.map(({ path }) => path);
    expect(due).toContain(row.path);
    expect((await db.query(contextsDue([8], 1_000))).rows).toEqual([]);
  });
});

describe("the mark behind", () => {
  it("is not lost to a commit that was under way with an older head", async () => {
    await db.query(markBehind([{ id: row.id, through: 20, epoch: 5n }]));
    expect((await db.query(commitBatch(fence(), batch({ cursor: 9 })))).rowCount).toBe(1);
    expect(await read()).toMatchObject({ cursor: 9, behindThrough: 20 });
    await db.query(commitBatch(fence({ version: 2n }), batch({ cursor: 20 })));
    expect(await read()).toMatchObject({ cursor: 20, behindThrough: null });
  });

  it("stays until the processor was told that it is at the head", async () => {
    await db.query(markBehind([{ id: row.id, through: 9, epoch: 5n }]));
    await db.query(commitBatch(fence(), batch({ cursor: 9, caughtUp: false })));
    expect(await read()).toMatchObject({ behindThrough: 9 });
    await db.query(moveCursor(fence({ version: 2n }), 11));
    expect(await read()).toMatchObject({ behindThrough: 9, cursor: 11 });
  });

  it("is found by the next owner, as are events owed", async () => {
    const found = async (): Promise<string[]> =>
      (await db.query<{ path: string }>(contextsNotAtRest(7, 0, 1_000))).rows.map(({ path }) => path);
    expect(await found()).not.toContain(row.path);
    await db.query(markBehind([{ id: row.id, through: 9, epoch: 5n }]));
    expect(await found()).toContain(row.path);
    await db.query(commitBatch(fence(), batch()));
    expect(await found()).toContain(row.path);
    await db.query(settleOwed((await owes()).map(({ id }) => id)));
    expect(await found()).not.toContain(row.path);
  });

  it("is refused to an overtaken owner", async () => {
    expect((await db.query(markBehind([{ id: row.id, through: 9, epoch: 4n }]))).rowCount).toBe(0);
  });
});

describe("another configuration of the same name", () => {
  it("keeps the state of the same host, and forgets failures", async () => {
    await db.query(commitBatch(fence(), batch({ owed: [] })));
    await db.query(
      reconfigureRow(fence({ version: 2n }), {
        configuredAt: 40,
        host: "facet:triage",
        cursor: 9,
        status: "active",
        resumedAt: 0,
        keepsCheckpoint: true,
      }),
    );
    expect(await read()).toMatchObject({ configuredAt: 40, cursor: 9, version: 3n, caughtUp: false });
    expect((await db.query(checkpointOf(row.id))).rows).toHaveLength(1);
  });

  it("[iterate-51] a late result of the former row changes nothing of it", async () => {
    await db.query(
      reconfigureRow(fence(), {
        configuredAt: 40,
        host: "facet:other",
        cursor: 2,
        status: "active",
        resumedAt: 0,
        keepsCheckpoint: false,
      }),
    );
    expect((await db.query(commitBatch(fence(), batch()))).rowCount).toBe(0);
    expect(
      (
        await db.query(
          commitSetback(fence(), {
            status: "halted",
            charge: clean,
            dueInMs: null,
            error: { code: "X", message: "" },
            owed: [owed()],
          }),
        )
      ).rowCount,
    ).toBe(0);
    expect(await read()).toMatchObject({ configuredAt: 40, host: "facet:other", cursor: 2, status: "active" });
    expect(await owes()).toEqual([]);
  });
});

describe("dead letters", () => {
  it("take the refused event out of the outbox and put its fact in the same place", async () => {
    const events = [owed(), owed()];
    await db.query(commitBatch(fence(), batch({ owed: events })));
    const fact: OwedEvent = { ...owed(), kind: "fact", code: "builtin:delivery" };
    await db.query(buryOwed(events[0]!.id, { code: "IDEMPOTENCY_CONFLICT", message: "taken" }, fact));
    await db.query(buryOwed(events[0]!.id, { code: "IDEMPOTENCY_CONFLICT", message: "taken" }, { ...fact, id: uuidv7() }));
    expect((await owes()).map(({ id }) => id)).toEqual([fact.id, events[1]!.id]);
    const { rows } = await db.query<{ id: string; name: string }>("select id, name from dead_letter where delivery_id = $1", [
      row.id,
    ]);
    expect(rows).toEqual([{ id: events[0]!.id, name: "triage" }]);
  });
});

describe("watermarks", () => {
  it("are moved by the newest owner alone", async () => {
    await db.query(storeWatermarks([{ partition: 9, position: "p1", epoch: 3n }]));
    await db.query(storeWatermarks([{ partition: 9, position: "p0", epoch: 2n }]));
    expect((await db.query(watermarks([9]))).rows).toEqual([{ partition: 9, position: "p1" }]);
  });
});
