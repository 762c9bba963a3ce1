/**
 * Real Postgres for tests. One server serves a whole test run (see global-setup.ts) and each test file makes its own database in
 * it, which is cheap; a test that kills, freezes or configures the server starts a private one.
 */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { generatePassword, PostgresServer, scratchSettings } from "./postgres-server.js";
import { scratchFolder } from "./scratch.js";
import { sharedPostgresUrl } from "./shared-server.js";

/** A database of its own, empty, owned by the superuser of `url`. */
export interface TestDatabase {
  url: string;
  name: string;
  /** Removes it, cutting whoever is still connected. */
  drop(): Promise<void>;
}

/** A running server that databases can be made in. */
export interface TestPostgres {
  /** A superuser's URL. */
  adminUrl: string;
  createDatabase: () => Promise<TestDatabase>;
  /** Ends it if it is private; a shared server stays for the other test files. */
  stop(): Promise<void>;
}

export interface PrivatePostgres extends TestPostgres {
  readonly server: PostgresServer;
  /** Ends the server as a power cut would. */
  kill(): Promise<void>;
  /** Starts it again on the same data and port. */
  start(): Promise<void>;
}

export interface PrivatePostgresOptions {
  /** Configuration parameters added to those of a scratch server (`fsync=off` …). */
  settings?: Readonly<Record<string, string>>;
  port?: number;
}

/**
 * The server of this test run: the one named by ITERATE_TEST_POSTGRES_URL (an admin URL, Postgres 15 or newer), else one
 * embedded server shared by all test files, started by the first who asks. Outside a test run it is private to the caller.
 */
export async function startPostgres(): Promise<TestPostgres> {
  const url = process.env.ITERATE_TEST_POSTGRES_URL ?? (await sharedPostgresUrl());
  if (url === undefined) return await startPrivatePostgres();
  return { adminUrl: url, createDatabase: () => createDatabase(url), stop: async () => undefined };
}

/** A server of the caller's own, which it must `stop`. Ready in about a second. */
export async function startPrivatePostgres(options: PrivatePostgresOptions = {}): Promise<PrivatePostgres> {
  const folder = scratchFolder("postgres");
  const server = await PostgresServer.start({
    dataDir: join(folder, "data"),
    password: generatePassword(),
    settings: { ...scratchSettings, max_connections: "300", ...options.settings },
    ...(options.port === undefined ? {} : { port: options.port }),
  });
  const adminUrl = server.adminUrl();
  return {
    adminUrl,
    server,
    createDatabase: () => createDatabase(adminUrl),
    kill: () => server.kill(),
    start: () => server.start(),
    stop: async () => {
      await server.destroy();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function createDatabase(adminUrl: string): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString("hex")}`;
  await asAdmin(adminUrl, `create database ${name} template template0`);
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return { name, url: url.href, drop: () => asAdmin(adminUrl, `drop database if exists ${name} with (force)`) };
}

async function asAdmin(adminUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl, connectionTimeoutMillis: 10_000, query_timeout: 30_000 });
  client.on("error", () => undefined);
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
