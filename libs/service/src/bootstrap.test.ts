import { chmod, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPrivatePostgres, type PrivatePostgres, type TestDatabase } from "@iterate-platform/testing";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { bootstrap, BootstrapRefusedError } from "./bootstrap.js";

// Roles belong to the whole server, so this file has one of its own.
let postgres: PrivatePostgres;
let database: TestDatabase;
let folder: string;
let passwordFile: string;

beforeAll(async () => {
  postgres = await startPrivatePostgres({ settings: { log_statement: "all" } });
});
afterAll(() => postgres.stop());
beforeEach(async () => {
  database = await postgres.createDatabase();
  folder = await mkdtemp(join(tmpdir(), "bootstrap-"));
  passwordFile = join(folder, "state", "passwords.json");
});
afterEach(async () => {
  await database.drop();
  await run(postgres.adminUrl, "drop role if exists iterate_one, iterate_two, iterate_build_worker, plain, creator");
  await rm(folder, { recursive: true });
});

const services = ["one", "two"];
const start = (adminUrl = database.url, over: Partial<Parameters<typeof bootstrap>[0]> = {}): ReturnType<typeof bootstrap> =>
  bootstrap({ adminUrl, services, passwordFile, ...over });

async function run(url: string, ...statements: string[]): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const statement of statements) rows = (await client.query<Record<string, unknown>>(statement)).rows;
    return rows;
  } finally {
    await client.end();
  }
}

function as(role: string, password: string): string {
  const url = new URL(database.url);
  url.username = role;
  url.password = password;
  return url.href;
}

test("each service gets a role whose first schema is its own, with the bounds of a service", async () => {
  const { urls, created } = await start();
  expect(created).toEqual(services);
  expect(
    await run(
      urls["one"] ?? "",
      "create table mine (n int)",
      "select current_user::text as role, current_schema()::text as schema",
    ),
  ).toEqual([{ role: "iterate_one", schema: "iterate_one" }]);
  expect(await run(urls["one"] ?? "", "show statement_timeout")).toEqual([{ statement_timeout: "5s" }]);
  expect(await run(urls["one"] ?? "", "show idle_in_transaction_session_timeout")).toEqual([
    { idle_in_transaction_session_timeout: "10s" },
  ]);
});

test("no service reads, writes or sees into another's schema, nor makes anything in public", async () => {
  const { urls } = await start();
  await run(urls["one"] ?? "", "create table secret (n int)", "insert into secret values (1)");
  const two = urls["two"] ?? "";
  for (const statement of [
    "select * from iterate_one.secret",
    "insert into iterate_one.secret values (2)",
    "create table iterate_one.planted (n int)",
    "drop table iterate_one.secret",
    "set role iterate_one",
    "create table public.planted (n int)",
    "create temporary table planted (n int)",
    "create schema planted",
    "create role planted",
  ]) {
    await expect(run(two, statement), statement).rejects.toMatchObject({ code: "42501" });
  }
});

test("a second run changes nothing, not even the passwords", async () => {
  const first = await start();
  const second = await start();
  expect(second).toEqual({ urls: first.urls, created: [] });
});

test("several that run at once on one state agree, and every URL works", async () => {
  const results = await Promise.all(Array.from({ length: 6 }, () => start()));
  expect(new Set(results.map(({ urls }) => JSON.stringify(urls))).size).toBe(1);
  expect(results.flatMap(({ created }) => created).sort()).toEqual(services);
  for (const url of Object.values(results[0]?.urls ?? {})) await run(url, "select 1");
});

test("a lost password file is made anew and the roles follow", async () => {
  const first = await start();
  await run(first.urls["one"] ?? "", "create table kept (n int)");
  await rm(passwordFile);
  const second = await start();
  expect(second.urls["one"]).not.toBe(first.urls["one"]);
  expect(second.created).toEqual([]);
  expect(await run(second.urls["one"] ?? "", "select * from kept")).toEqual([]);
  await expect(run(first.urls["one"] ?? "", "select 1")).rejects.toMatchObject({ code: "28P01" });
});

test("a service added later joins the others", async () => {
  await start(database.url, { services: ["one"] });
  expect((await start()).created).toEqual(["two"]);
});

test("a hyphen in a service's name is an underscore in its role", async () => {
  const { urls } = await start(database.url, { services: ["build-worker"] });
  expect(await run(urls["build-worker"] ?? "", "select current_schema()::text as schema")).toEqual([
    { schema: "iterate_build_worker" },
  ]);
});

test("an administrator that may create roles and owns the database suffices", async () => {
  await run(database.url, "create role creator login createrole password 'c'", `alter database ${database.name} owner to creator`);
  const { urls } = await start(as("creator", "c"));
  await run(urls["two"] ?? "", "create table mine (n int)");
  await run(
    database.url,
    `alter database ${database.name} owner to postgres`,
    "drop owned by creator cascade",
    "drop owned by iterate_one, iterate_two cascade",
  );
});

test("without the right to create roles it hands out SQL that does it, without a password in it", async () => {
  await run(database.url, "create role plain login password 'p'");
  const refusal = await start(as("plain", "p")).then(
    () => expect.unreachable("it was not refused"),
    (error: unknown) => error,
  );
  expect(refusal).toBeInstanceOf(BootstrapRefusedError);
  const { sql, message } = refusal as BootstrapRefusedError;
  const passwords = Object.values(JSON.parse(await readFile(passwordFile, "utf8")) as Record<string, string>);
  expect(passwords).toHaveLength(2);
  for (const password of passwords) expect(message).not.toContain(password);
  await run(database.url, sql);
  const { urls, created } = await start(as("plain", "p"));
  expect(created).toEqual([]);
  await run(urls["one"] ?? "", "create table mine (n int)");
});

test("the passwords are for their owner alone: in the file, and in nothing the server logs", async () => {
  await start();
  expect((await stat(passwordFile)).mode & 0o777).toBe(0o600);
  const { one } = JSON.parse(await readFile(passwordFile, "utf8")) as { one: string };
  expect(postgres.server.lastLines()).toContain("iterate_one");
  expect(postgres.server.lastLines()).not.toContain(one);
  await chmod(passwordFile, 0o640);
  await expect(start()).rejects.toMatchObject({ code: "FORBIDDEN" });
});

test("a database that is away is UNAVAILABLE, and a name that is none is refused", async () => {
  await expect(start("postgres://nobody@127.0.0.1:1/none")).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await expect(start(database.url, { services: ['x"; drop'] })).rejects.toMatchObject({ code: "INVALID_INPUT" });
});
