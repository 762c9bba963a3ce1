import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import pg from "pg";
import { afterEach, expect, test } from "vitest";
import { useTestDatabase } from "./fixture.js";
import { startPostgres, startPrivatePostgres, type PrivatePostgres } from "./postgres.js";
import { PostgresServer, generatePassword } from "./postgres-server.js";
import { PortBusyError } from "./free-port.js";
import { scratchFolder } from "./scratch.js";

const database = useTestDatabase();
const clients: pg.Client[] = [];

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on("error", () => undefined);
  clients.push(client);
  await client.connect();
  return client;
}

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.end().catch(() => undefined)));
});

test("a test file has an empty database of its own on Postgres 15 or newer", async () => {
  const client = await connect(database.url);
  const { rows } = await client.query(
    "select current_setting('server_version_num')::int as version, count(*)::int as tables from pg_stat_user_tables",
  );
  expect(rows[0].version).toBeGreaterThanOrEqual(150_000);
  expect(rows[0].tables).toBe(0);
});

test("everyone in a run gets the same server and a different database", async () => {
  const [one, other] = await Promise.all([startPostgres(), startPostgres()]);
  expect(one.adminUrl).toBe(other.adminUrl);
  const made = await Promise.all([one.createDatabase(), other.createDatabase(), one.createDatabase()]);
  expect(new Set(made.map(({ url }) => url)).size).toBe(3);
  await Promise.all(made.map((each) => each.drop()));
});

test("dropping a database cuts who is connected to it and may be repeated", async () => {
  const { createDatabase } = await startPostgres();
  const made = await createDatabase();
  await connect(made.url);
  await made.drop();
  await made.drop();
  await expect(connect(made.url)).rejects.toThrow(/does not exist/);
});

test("what is committed survives a kill and a start on the same port", async () => {
  const postgres = await startPrivatePostgres();
  try {
    const before = await connect(postgres.adminUrl);
    await before.query("create table kept (n int)");
    await before.query("insert into kept values (1)");
    await postgres.kill();
    await expect(connect(postgres.adminUrl)).rejects.toThrow();
    await postgres.start();
    const after = await connect(postgres.adminUrl);
    expect((await after.query("select n from kept")).rows).toEqual([{ n: 1 }]);
  } finally {
    await postgres.stop();
  }
});

test("a stopped private server leaves no file", async () => {
  const postgres: PrivatePostgres = await startPrivatePostgres();
  const client = await connect(postgres.adminUrl);
  const { rows } = await client.query("show data_directory");
  const folder = dirname(rows[0].data_directory as string);
  expect(folder).toMatch(/iterate-test-postgres-/);
  expect(existsSync(folder)).toBe(true);
  await postgres.stop();
  expect(existsSync(folder)).toBe(false);
});

test("a busy port is named by an error of its own", async () => {
  const { adminUrl } = await startPostgres();
  const port = Number(new URL(adminUrl).port);
  const folder = scratchFolder("busy");
  const options = { dataDir: join(folder, "data"), password: generatePassword(), port };
  await expect(PostgresServer.start(options)).rejects.toThrow(new PortBusyError(port));
  rmSync(folder, { recursive: true });
});
