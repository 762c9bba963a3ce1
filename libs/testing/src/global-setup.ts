/**
 * vitest's globalSetup: one Postgres for the whole run, started by the first test file that asks for it and removed at the end.
 */
import { startPrivatePostgres, type PrivatePostgres } from "./postgres.js";
import { shareServer } from "./shared-server.js";

export default async function setUp(): Promise<() => Promise<void>> {
  let postgres: Promise<PrivatePostgres> | undefined;
  const shared = await shareServer(async () => {
    postgres = startPrivatePostgres();
    return (await postgres).adminUrl;
  });
  return async () => {
    await shared.close();
    await (await postgres?.catch(() => undefined))?.stop();
  };
}
