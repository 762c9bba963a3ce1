/**
 * What a test file declares at its top: the database or broker it works on, made before its tests and removed after them.
 */
import { afterAll, beforeAll } from "vitest";
import { startNats, type NatsOptions, type TestNats } from "./nats.js";
import { startPostgres, startPrivatePostgres, type PrivatePostgres, type TestDatabase } from "./postgres.js";

export interface TestDatabaseOptions {
  /** A server of its own, for what another test's open transaction would hold back: the whole server's snapshots wait for it. */
  readonly isAlone?: boolean;
}

/** An empty database for the tests of this file (or `describe`). Read `url` inside tests and hooks, never while they are declared. */
export function useTestDatabase({ isAlone = false }: TestDatabaseOptions = {}): { readonly url: string } {
  let server: PrivatePostgres | undefined;
  let database: TestDatabase | undefined;
  beforeAll(async () => {
    server = isAlone ? await startPrivatePostgres() : undefined;
    database = await (server ?? (await startPostgres())).createDatabase();
  });
  afterAll(async () => {
    await database?.drop();
    await server?.stop();
  });
  return {
    get url() {
      if (database === undefined) throw new Error("the test database exists inside tests and hooks alone");
      return database.url;
    },
  };
}

/** A NATS server for the tests of this file (or `describe`). */
export function useNats(options: NatsOptions = {}): { readonly url: string; readonly server: TestNats } {
  let nats: TestNats | undefined;
  beforeAll(async () => {
    nats = await startNats(options);
  });
  afterAll(async () => {
    await nats?.stop();
  });
  const running = (): TestNats => {
    if (nats === undefined) throw new Error("the NATS server exists inside tests and hooks alone");
    return nats;
  };
  return {
    get url() {
      return running().url;
    },
    get server() {
      return running();
    },
  };
}
