/** Plans of every statement of the write side: an index for everything, one partition for one context, whatever the tables hold. */
import { useTestDatabase } from "@iterate-platform/testing";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { commitStatement } from "./commit.sql.js";
import { migrateLog, startEngine } from "../engine.fixture.js";
import * as head from "./head.sql.js";
import { childrenOf } from "./postgres-child-store.js";
import { newestSnapshot } from "./postgres-snapshot-store.js";
import { toldBirths, untoldBirths } from "./postgres-birth-store.js";
import * as schedule from "./schedule.sql.js";
import { boolArray, byteaArray, int2Array, int4Array, int8Array, textArray, uuidArray } from "./pg-array.js";

const database = useTestDatabase();
let pool: Pool;
let contextId: number;

beforeAll(async () => {
  await migrateLog(database.url);
  const engine = startEngine({ url: database.url });
  for (let n = 0; n < 40; n += 1) await engine.append(`/${n}`, [{ idempotencyKey: "K" }, {}]);
  contextId = engine.cache.peek({ owner: "prj_00000000000000000000000000", path: "/0" })!.contextId;
  await engine.close();
  pool = createPool({ url: database.url, applicationName: "plans", max: 1 });
});
afterAll(() => pool.end());

const shapes = [false, true].flatMap((hasKeys) =>
  [false, true].flatMap((hasCore) =>
    [false, true].flatMap((isClaimed) =>
      (["none", "one", "many"] as const).map((guards) => ({ hasKeys, hasCore, guards, hasDue: hasCore, isClaimed })),
    ),
  ),
);
const ofOne = [
  head.loadHeads,
  head.loadHeadsById,
  head.lastCommits,
  head.controlEvents,
  head.takenKeys,
  head.committedAppends,
  head.claimNextCommit,
  schedule.definitions,
  schedule.settleDue,
  schedule.removeDue,
  schedule.restoreDue,
  untoldBirths,
  toldBirths,
  childrenOf,
  newestSnapshot,
  ...shapes.map(commitStatement),
];

describe.each(ofOne.map((statement) => [statement.name, statement] as const))("the plan of %s", (_, statement) => {
  it("reads the log by indexes, even as it is made when the tables are small", async () => {
    const rows = await explain(`explain (generic_plan) ${statement.text}`, []);
    expect(rows).not.toMatch(/Seq Scan on (event|commit|context|core_state|core_snapshot|event_type|schedule_due)/);
  });

  it("looks into one partition of each table for one context", async () => {
    await pool.query("begin");
    const rows = await explain(
      `explain (analyze, costs off, timing off, summary off) ${statement.text}`,
      valuesFor(statement.name, contextId),
    );
    await pool.query("rollback");
    for (const table of ["event", "commit"]) {
      const scanned = [...rows.matchAll(new RegExp(`Scan (?:Backward )?using \\S+ on ${table}_(\\d+) .*\\(actual`, "g"))].map(
        ([, partition]) => partition,
      );
      expect(new Set(scanned).size, rows).toBeLessThanOrEqual(1);
    }
  });
});

async function explain(text: string, values: readonly unknown[]): Promise<string> {
  const { rows } = await pool.query<readonly [string]>({ text, rowMode: "array" }, values);
  return rows.map(([line]) => line).join("\n");
}

function valuesFor(name: string, id: number): unknown[] {
  const ids = int8Array([id]);
  switch (name) {
    case "load_heads":
      return [textArray(["prj_00000000000000000000000000"]), textArray(["/0"]), 1];
    case "load_heads_by_id":
      return [ids, 1];
    case "last_commits":
      return [ids];
    case "control_events":
      return [ids, int8Array([0]), int8Array([100]), 10];
    case "taken_keys":
      return [ids, textArray(["K"])];
    case "committed_appends":
      return [ids, uuidArray([Buffer.alloc(16, 1)])];
    case "schedule_definitions":
      return [ids, int8Array([1])];
    case "settle_due":
      return [id, "k", 1, 1];
    case "remove_due":
      return [id, "k", 1];
    case "restore_due":
      return [ids, textArray(["k"]), int8Array([1]), int8Array([1])];
    case "untold_births":
      return [id - 1, 0, 1];
    case "told_births":
      return [ids];
    case "children":
      return ["prj_00000000000000000000000000", "/", "/0", 1];
    case "newest_snapshot":
      return [id, 1, 1];
    case "claim_next_commit":
      return [id];
    default: {
      const commit = [
        1,
        7,
        ids,
        int8Array([2]),
        int8Array([4]),
        int8Array([4]),
        int8Array([4]),
        int8Array([1]),
        int8Array([0]),
        null,
      ];
      const event = [
        ids,
        int8Array([4]),
        int4Array([1]),
        int2Array([1]),
        boolArray([false]),
        uuidArray([Buffer.alloc(16, 2)]),
        textArray(["new"]),
        byteaArray([Buffer.alloc(32)]),
        textArray(["{}"]),
        null,
        textArray(["1"]),
        null,
      ];
      const keys = name.includes("_keys") ? [ids, textArray(["new"])] : [];
      const core = name.includes("_core") ? [1, ids, textArray(["identity"]), int8Array([4]), textArray(["{}"])] : [];
      const guards = name.includes("_guard") ? [ids, ids, int8Array([1])] : [];
      const due = name.includes("_due") ? [ids, textArray(["k"]), ids, ids, ids] : [];
      return [...commit, ...event, ...keys, ...core, ...guards, ...due];
    }
  }
}
