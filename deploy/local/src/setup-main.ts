/**
 * What `make setup` does once the packages are installed: servers for this clone, secrets, and the build the stack runs.
 */
import { spawnSync } from "node:child_process";
import { ensureNatsServer } from "@iterate-platform/testing/nats-binary";
import { postgresBinaries } from "@iterate-platform/testing/postgres-binaries";
import { prepareSecrets } from "./prepare.js";
import { repositoryRoot, stateFolderFrom, statePaths } from "./state.js";

async function step(name: string, work: () => unknown): Promise<void> {
  const startedAt = performance.now();
  try {
    await work();
  } catch (error) {
    process.stderr.write(`setup: ${name}: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  }
  process.stderr.write(`setup: ${name} (${((performance.now() - startedAt) / 1000).toFixed(1)} s)\n`);
}

function build(): void {
  const { status } = spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", "-b"], {
    cwd: repositoryRoot,
    stdio: "inherit",
  });
  if (status !== 0) throw new Error("the sources do not compile");
}

if (process.env.ITERATE_POSTGRES_ADMIN_URL === undefined) await step("Postgres", () => postgresBinaries());
if (process.env.NATS_URL === undefined) await step("NATS", () => ensureNatsServer());
await step("keys and admin token", () => prepareSecrets(statePaths(stateFolderFrom(process.env))));
await step("build", build);
