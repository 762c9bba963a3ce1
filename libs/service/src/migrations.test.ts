import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, startPostgres, type TestDatabase } from "@iterate-platform/testing";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { migrate } from "./migrations.js";
import { parseMigration } from "./migration-files.js";

let database: TestDatabase;
let dir: string;
let client: pg.Client;

beforeEach(async () => {
  database = await (await startPostgres()).createDatabase();
  dir = await mkdtemp(join(tmpdir(), "migrations-"));
  client = new pg.Client(database.url);
  client.on("error", () => undefined);
  await client.connect();
});
afterEach(async () => {
  await client.end();
  await database.drop();
  await rm(dir, { recursive: true });
});

async function write(files: Record<string, string>): Promise<void> {
  for (const [name, sql] of Object.entries(files)) await writeFile(join(dir, name), sql);
}

const run = (): Promise<string[]> => migrate({ url: database.url, dir });

async function query(sql: string): Promise<unknown[]> {
  return (await client.query<Record<string, unknown>>(sql)).rows;
}

test("files are applied in the order of their numbers, once", async () => {
  await write({
    "0002_fill.sql": "insert into thing values (1); insert into thing values (2);",
    "0001_thing.sql": "create table thing (n int);",
  });
  expect(await run()).toEqual(["0001_thing.sql", "0002_fill.sql"]);
  expect(await run()).toEqual([]);
  await write({ "0003_more.sql": "insert into thing values (3)" });
  expect(await run()).toEqual(["0003_more.sql"]);
  expect(await query("select n from thing order by n")).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
});

test("ten that start together apply each file once, concurrent index builds among them", async () => {
  await write({
    "0001_thing.sql": "create table thing (n int);",
    "0002_thing_n.concurrent.sql": "-- why\ncreate index concurrently if not exists thing_n on thing (n);\n",
    "0003_fill.sql": "insert into thing values (1);",
  });
  const results = await Promise.all(Array.from({ length: 10 }, run));
  expect(results.flat().sort()).toEqual(["0001_thing.sql", "0002_thing_n.concurrent.sql", "0003_fill.sql"]);
  expect(await query("select n from thing")).toEqual([{ n: 1 }]);
  expect(await query("select indisvalid from pg_index where indexrelid = 'thing_n'::regclass")).toEqual([{ indisvalid: true }]);
});

test("a failing file leaves nothing of itself, keeps those before it, and goes on after it is mended", async () => {
  await write({
    "0001_thing.sql": "create table thing (n int);",
    "0002_broken.sql": "insert into thing values (1); insert into nowhere values (1);",
  });
  await expect(run()).rejects.toMatchObject({ code: "42P01" });
  expect(await query("select n from thing")).toEqual([]);
  await write({ "0002_broken.sql": "insert into thing values (1);" });
  expect(await run()).toEqual(["0002_broken.sql"]);
});

test("an index that an interrupted build left invalid is built again", async () => {
  await write({ "0001_thing.sql": "create table thing (n int); insert into thing values (1), (1);" });
  await run();
  await write({ "0002_one.concurrent.sql": "create unique index concurrently if not exists thing_one on thing (n);" });
  await expect(run()).rejects.toMatchObject({ code: "23505" });
  expect(await query("select indisvalid from pg_index where indexrelid = 'thing_one'::regclass")).toEqual([{ indisvalid: false }]);
  await query("truncate thing");
  expect(await run()).toEqual(["0002_one.concurrent.sql"]);
  expect(await query("select indisvalid from pg_index where indexrelid = 'thing_one'::regclass")).toEqual([{ indisvalid: true }]);
});

test("a file changed after it was applied is refused by its name", async () => {
  await write({ "0001_thing.sql": "create table thing (n int);" });
  await run();
  await write({ "0001_thing.sql": "create table thing (n bigint);" });
  await expect(run()).rejects.toThrow(/0001_thing\.sql was changed after it was applied/);
});

test("line ends of another system are no change", async () => {
  await write({ "0001_thing.sql": "create table thing (\n n int);\n" });
  await run();
  await write({ "0001_thing.sql": "create table thing (\r\n n int);\r\n" });
  expect(await run()).toEqual([]);
});

test("a file older than an applied one is refused", async () => {
  await write({ "0002_thing.sql": "create table thing (n int);" });
  await run();
  await write({ "0001_late.sql": "select 1;" });
  await expect(run()).rejects.toThrow(/0001_late\.sql comes too late: number 2 is applied/);
});

test("the previous version's folder has nothing to do on a newer schema", async () => {
  await write({ "0001_thing.sql": "create table thing (n int);", "0002_more.sql": "select 1;" });
  await run();
  await rm(join(dir, "0002_more.sql"));
  expect(await run()).toEqual([]);
});

test("a migration lets the service work while it waits for a table, and is applied once the table is free", async () => {
  await write({ "0001_thing.sql": "create table thing (n int);" });
  await run();
  await write({ "0002_column.sql": "alter table thing add column m int;" });
  const reader = new pg.Client(database.url);
  await reader.connect();
  await reader.query("begin");
  await reader.query("select * from thing");
  const migrating = run();
  await eventually(
    async () =>
      (await query("select 1 from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'iterate-migrate'"))
        .length === 1,
  );
  // This read queues behind the waiting migration, which steps aside within its bound.
  const start = performance.now();
  await query("select n from thing");
  expect(performance.now() - start).toBeLessThan(4_000);
  await reader.query("commit");
  await reader.end();
  expect(await migrating).toEqual(["0002_column.sql"]);
});

test("a schema that somebody else migrates for too long is UNAVAILABLE", async () => {
  await write({ "0001_thing.sql": "create table thing (n int);" });
  await query("begin");
  await query("select pg_advisory_xact_lock(hashtextextended('iterate.migrations.public', 0))");
  await expect(migrate({ url: database.url, dir, lockTimeoutMs: 200 })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await query("rollback");
});

test("a connection lost in the middle is UNAVAILABLE, and the next run does the work", async () => {
  await write({ "0001_thing.sql": "create table thing (n int); select pg_sleep(1);" });
  const migrating = run();
  const refusal = expect(migrating).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await eventually(
    async () =>
      (
        await query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'iterate-migrate' and wait_event = 'PgSleep'",
        )
      ).length === 1,
  );
  await refusal;
  expect(await run()).toEqual(["0001_thing.sql"]);
});

test("a database that is away is UNAVAILABLE", async () => {
  await expect(migrate({ url: "postgres://nobody@127.0.0.1:1/none", dir })).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

describe("a folder is refused when", () => {
  test("two files share a number", async () => {
    await write({ "0001_a.sql": "select 1", "0001_b.sql": "select 1" });
    await expect(run()).rejects.toThrow(/0001_a\.sql and 0001_b\.sql share a number/);
  });

  test.each(["1_a.sql", "00001_a.sql", "0001-a.sql", "0001_A.sql", "a.sql"])("a file is named %s", (name) => {
    expect(() => parseMigration(name, "select 1")).toThrow(/is not named/);
  });

  test.each([
    "create index a on b (c);",
    "create index concurrently a on b (c);",
    "create index concurrently if not exists a on b (c); drop table b;",
  ])("a concurrent file holds: %s", (sql) => {
    expect(() => parseMigration("0001_a.concurrent.sql", sql)).toThrow(/may hold/);
  });
});
