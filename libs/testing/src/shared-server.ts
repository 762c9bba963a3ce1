/**
 * How the processes of one test run share a Postgres: the run's main process keeps a small HTTP endpoint whose address the
 * workers inherit by environment; the first question starts the server, so a run that needs none starts none.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

const variable = "ITERATE_TEST_SHARED_SERVER";

/** The shared server's admin URL, started if it must be; undefined outside a test run. */
export async function sharedPostgresUrl(): Promise<string | undefined> {
  const address = process.env[variable];
  if (address === undefined) return undefined;
  const answer = await fetch(address, { signal: AbortSignal.timeout(60_000) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`the shared Postgres did not start: ${text}`);
  return text;
}

/** Serves `start`'s answer, called once, to this process's future children. */
export async function shareServer(start: () => Promise<string>): Promise<{ close(): Promise<void> }> {
  let url: Promise<string> | undefined;
  const endpoint = createServer((_, response) => {
    url ??= start();
    url.then(
      (text) => response.end(text),
      (error: unknown) => response.writeHead(500).end(error instanceof Error ? error.message : String(error)),
    );
  });
  await listen(endpoint);
  process.env[variable] = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/postgres`;
  return {
    close: async () => {
      delete process.env[variable];
      endpoint.closeAllConnections();
      await new Promise((resolve) => endpoint.close(resolve));
    },
  };
}

async function listen(endpoint: Server): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    endpoint.once("error", reject);
    endpoint.listen(0, "127.0.0.1", resolve);
  });
}
