/**
 * A role and a schema per service, made from an administrator's URL: services see only their own, and nobody uses `public`.
 * Idempotent and safe when several run at once (one transaction under one advisory lock). Generated passwords are kept in one file
 * that only its owner can read; the server is given SCRAM verifiers, so that no statement, log or printout holds a password.
 */
import { randomBytes } from "node:crypto";
import { CodedError, codedError } from "iterate/lib";
import pg from "pg";
import { readPasswords, writePasswords, type Passwords } from "./password-file.js";
import { scramVerifier } from "./scram.js";
import { retryableSqlState, sqlState } from "./sqlstate.js";

export interface BootstrapOptions {
  /** A URL of the database to use, of a role that may create roles and owns the database (or is a superuser). */
  adminUrl: string;
  /** Services that keep data, e.g. `["context", "runner"]`. */
  services: readonly string[];
  /** The file of the passwords, made with mode 0600. */
  passwordFile: string;
}

export interface Bootstrapped {
  /** Each service's own URL. */
  urls: Readonly<Record<string, string>>;
  /** The services whose role this call made. */
  created: readonly string[];
}

/** Thrown when the URL's role may not create roles: `sql` is what somebody who may has to run, once. */
export class BootstrapRefusedError extends CodedError {
  constructor(readonly sql: string) {
    super("FORBIDDEN", `the database role may not create roles. Have an administrator run this, then start again:\n\n${sql}`);
  }
}

/**
 * Makes what is missing and answers each service's URL.
 *
 * @throws BootstrapRefusedError with the SQL to run; CodedError UNAVAILABLE when the database is away (try again), FORBIDDEN when
 *   the password file can be read by others.
 */
export async function bootstrap(options: BootstrapOptions): Promise<Bootstrapped> {
  for (const service of options.services) assertServiceName(service);
  const client = await connect(options.adminUrl);
  try {
    await client.query("begin");
    await client.query("select pg_advisory_xact_lock(hashtextextended('iterate.bootstrap', 0))");
    const result = await bootstrapLocked(client, options);
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    if (retryableSqlState(error))
      throw new CodedError("UNAVAILABLE", "the database could not be prepared for now", { cause: error });
    throw error;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** The role, and the schema, of a service. */
export function roleOf(service: string): string {
  return `iterate_${service.replaceAll("-", "_")}`;
}

async function bootstrapLocked(client: pg.Client, options: BootstrapOptions): Promise<Bootstrapped> {
  const admin = await describeAdmin(client);
  const passwords = await completePasswords(options);
  const urls = Object.fromEntries(options.services.map((service) => [service, serviceUrl(options.adminUrl, service, passwords)]));
  const roles = options.services.map(roleOf);
  const existing = await existingRoles(client, roles);

  const stale: string[] = [];
  for (const service of options.services) {
    if (!existing.has(roleOf(service)) || !(await isUsable(urls[service] ?? "", roleOf(service)))) stale.push(service);
  }
  if (stale.length === 0) return { urls, created: [] };
  const statements = stale.flatMap((service) =>
    statementsFor(roleOf(service), passwords[service] ?? "", existing.has(roleOf(service))),
  );
  statements.unshift(
    "revoke all on schema public from public;",
    `revoke temporary on database ${pg.escapeIdentifier(admin.database)} from public;`,
  );
  if (!admin.mayCreateRoles) throw new BootstrapRefusedError(statements.join("\n"));
  for (const statement of statements) await client.query(statement);
  return { urls, created: stale.filter((service) => !existing.has(roleOf(service))) };
}

function statementsFor(role: string, password: string, exists: boolean): string[] {
  const verifier = pg.escapeLiteral(scramVerifier(password, randomBytes(16)));
  return [
    `${exists ? "alter" : "create"} role ${role} login password ${verifier};`,
    `alter role ${role} set search_path = ${role};`,
    `alter role ${role} set statement_timeout = '5s';`,
    `alter role ${role} set idle_in_transaction_session_timeout = '10s';`,
    // Who makes a schema for a role must be able to become it.
    `grant ${role} to current_user;`,
    `create schema if not exists ${role} authorization ${role};`,
  ];
}

async function describeAdmin(client: pg.Client): Promise<{ database: string; mayCreateRoles: boolean }> {
  const { rows } = await client.query<{ database: string; mayCreateRoles: boolean }>(
    `select current_database() as database,
            (rolsuper or rolcreaterole) and has_database_privilege(current_database(), 'CREATE') as "mayCreateRoles"
       from pg_roles where rolname = current_user`,
  );
  const [row] = rows;
  if (row === undefined) throw codedError("INTERNAL", "the database does not know its own current role");
  return row;
}

async function existingRoles(client: pg.Client, roles: readonly string[]): Promise<Set<string>> {
  const { rows } = await client.query<{ name: string }>("select rolname as name from pg_roles where rolname = any($1)", [roles]);
  return new Set(rows.map(({ name }) => name));
}

/** Keeps the passwords there are and makes those that are missing; on disk before any role has them. */
async function completePasswords(options: BootstrapOptions): Promise<Passwords> {
  const passwords = await readPasswords(options.passwordFile);
  const missing = options.services.filter((service) => passwords[service] === undefined);
  if (missing.length === 0) return passwords;
  const complete = {
    ...passwords,
    ...Object.fromEntries(missing.map((service) => [service, randomBytes(24).toString("base64url")])),
  };
  await writePasswords(options.passwordFile, complete);
  return complete;
}

/** Whether the service's URL opens and has its own schema first. */
async function isUsable(url: string, role: string): Promise<boolean> {
  let client: pg.Client;
  try {
    client = await connect(url);
  } catch (error) {
    if (["28P01", "28000"].includes(sqlState(error) ?? "")) return false;
    throw error;
  }
  try {
    const { rows } = await client.query<{ schema: string | null }>("select current_schema() as schema");
    return rows[0]?.schema === role;
  } finally {
    await client.end().catch(() => undefined);
  }
}

function serviceUrl(adminUrl: string, service: string, passwords: Passwords): string {
  const url = new URL(adminUrl);
  url.username = roleOf(service);
  url.password = passwords[service] ?? "";
  return url.href;
}

function assertServiceName(service: string): void {
  if (!/^[a-z][a-z0-9-]{0,40}$/.test(service)) throw codedError("INVALID_INPUT", `"${service}" is no service name`);
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: "iterate-bootstrap",
    connectionTimeoutMillis: 10_000,
    query_timeout: 30_000,
    options: "-c client_min_messages=error",
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
  } catch (error) {
    if (sqlState(error) !== undefined && !retryableSqlState(error)) throw error;
    throw new CodedError("UNAVAILABLE", "the database to prepare cannot be reached", { cause: error });
  }
  return client;
}
