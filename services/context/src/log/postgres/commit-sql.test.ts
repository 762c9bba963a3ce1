/** Rules of the commit statement that only two connections at once can show. */
import { createPool, type Pool, type PoolConnection } from "@iterate-platform/service/postgres";
import { eventually, useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, expect, it } from "vitest";
import { commitStatement, type CommitRow } from "./commit.sql.js";
import { migrateLog } from "../engine.fixture.js";
import { claimNextCommit } from "./head.sql.js";
import { boolArray, byteaArray, int2Array, int4Array, int8Array, textArray, uuidArray } from "./pg-array.js";

const database = useTestDatabase();
let pool: Pool;
const open: PoolConnection[] = [];
beforeAll(async () => {
  await migrateLog(database.url);
  pool = createPool({ url: database.url, applicationName: "commit-sql", max: 12 });
  await pool.query("insert into event_type (name) values ('t')");
});
afterAll(async () => {
  for (const connection of open) connection.release();
  await pool.end();
});

const connect = async (): Promise<PoolConnection> => {
  const connection = await pool.connect();
  open.push(connection);
  return connection;
};

/** Commits `no` with one event to each of `ids`, sent in this order. */
async function commit(on: PoolConnection, ids: readonly number[], no: number, key: string | null = null): Promise<number[]> {
  const same = (value: number): Buffer => int8Array(ids.map(() => value));
  const values = [1, 7, int8Array(ids), same(no), same(no), same(no), same(no), same(0), same(0), null, int8Array(ids), same(no)];
  const event = [
    int4Array(ids.map(() => 1)),
    int2Array(ids.map(() => 1)),
    boolArray(ids.map(() => false)),
    uuidArray(ids.map(() => crypto.getRandomValues(Buffer.alloc(16)))),
  ];
  const body = [
    key === null ? null : textArray(ids.map(() => key)),
    key === null ? null : byteaArray(ids.map(() => Buffer.alloc(32))),
    textArray(ids.map(() => "{}")),
    null,
    textArray(ids.map(() => "1")),
    null,
  ];
  const keys = key === null ? [] : [int8Array(ids), textArray(ids.map(() => key))];
  const { text } = commitStatement({ hasKeys: key !== null, hasCore: false, guards: "none", hasDue: false, isClaimed: false });
  const { rows } = await on.query<CommitRow>({ text, rowMode: "array" }, [...values, ...event, ...body, ...keys]);
  return rows.filter(([, , key]) => key === null).map(([id]) => Number(id));
}

it("takes its contexts in the order of their ids, whatever order they are sent in, so that groups cannot lock each other out", async () => {
  const [first, holder, probe] = [await connect(), await connect(), await connect()];
  await commit(first, [1, 2, 3], 1);
  await holder.query("begin");
  await holder.query({ text: claimNextCommit.text }, [2]);
  const group = commit(first, [3, 2, 1], 2);
  await eventually(
    async () =>
      (await probe.query("select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()")).rows
        .length === 1,
  );
  // It waits for context 2: context 1 is taken already, context 3 is not.
  await probe.query("set statement_timeout = '150ms'");
  await expect(commit(probe, [1], 2)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(await commit(probe, [3], 2)).toEqual([3]);
  await holder.query("rollback");
  expect(await group).toEqual([1, 2]);
});

it("lands for the contexts that are free and leaves no trace in those that are not", async () => {
  const [one, other] = [await connect(), await connect()];
  await commit(one, [11, 12, 13], 1);
  await commit(one, [12], 2);
  expect(await commit(other, [13, 12, 11], 2)).toEqual([11, 13]);
  const { rows } = await one.query(
    "select context_id::int as id, count(*)::int as events from event where context_id in (11, 12, 13) group by 1 order by 1",
  );
  expect(rows).toEqual([11, 12, 13].map((id) => ({ id, events: 2 })));
});

it("keeps a context with a taken key out of the commit and answers where the key is", async () => {
  const one = await connect();
  await commit(one, [21, 22], 1);
  await commit(one, [21], 2, "K");
  expect(await commit(one, [21, 22], 3, "K")).toEqual([22]);
  const { rows } = await one.query("select count(*)::int as count from commit where context_id = 21");
  expect(rows).toEqual([{ count: 2 }]);
});

it("does nothing for a group planned in another generation", async () => {
  const one = await connect();
  await commit(one, [31], 1);
  await one.query("update shard set generation = 2");
  expect(await commit(one, [31], 2)).toEqual([]);
  await one.query("update shard set generation = 1");
});
