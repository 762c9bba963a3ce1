/**
 * The stack's Postgres: the embedded server on the state folder, or one that runs already, with a role and schema per service.
 */
import { join } from "node:path";
import { bootstrap } from "@iterate-platform/service/bootstrap";
import { PostgresServer } from "@iterate-platform/testing/postgres-server";
import type { ServiceRow } from "./services.js";
import { postgresDataFolder, secretFile, type StatePaths } from "./state.js";

export interface Databases {
  server: PostgresServer | undefined;
  adminUrl: string;
  /** Each service's own URL, by its name. */
  urls: Readonly<Record<string, string>>;
}

export interface DatabasesOptions {
  state: StatePaths;
  rows: readonly ServiceRow[];
  port: number;
  /** An administrator's URL of a server that runs already (ITERATE_POSTGRES_ADMIN_URL); the stack starts none then. */
  externalUrl: string | undefined;
  onLine: (line: string) => void;
}

/** Commits are durable, as in production; the rest suits a small machine. */
const settings = { max_connections: "200", shared_buffers: "256MB", max_wal_size: "2GB", wal_compression: "pglz" };

export async function startDatabases(options: DatabasesOptions): Promise<Databases> {
  const { state, port, externalUrl, onLine } = options;
  const server =
    externalUrl === undefined
      ? await PostgresServer.start({
          dataDir: postgresDataFolder(state),
          password: secretFile(join(state.folder, "postgres-password")),
          port,
          settings,
          onLine,
        })
      : undefined;
  try {
    const adminUrl = externalUrl ?? server?.adminUrl() ?? "";
    const services = options.rows.filter((row) => row.hasDatabase).map((row) => row.name);
    const { urls } = await bootstrap({ adminUrl, services, passwordFile: state.passwordFile });
    return { server, adminUrl, urls };
  } catch (error) {
    await server?.stop();
    throw error;
  }
}
