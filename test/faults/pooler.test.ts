/** Behind a pooler that gives out server connections by transaction nothing may rest on a session: no statement's name, no setting, no lock. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { bootstrap } from "@iterate-platform/service/bootstrap";
import { hasPrograms } from "@iterate-platform/testing";
import { ServiceProcess } from "@iterate-platform/testing/service-process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { Pooler } from "./pooler.js";
import { count, testBoundMs } from "./scale.js";
import { select } from "./truth.js";

const main = fileURLToPath(new URL("../../services/context/src/main.ts", import.meta.url));

describe.skipIf(!hasPrograms("pgbouncer"))("through pgbouncer in transaction mode", () => {
  // Roles are the server's own, so nobody else's test may make the same.
  const cluster = useCluster({ pods: 0, postgres: "private" });
  const folder = mkdtempSync(join(tmpdir(), "iterate-pooler-"));
  let pooler: Pooler;
  let directUrl: string;

  beforeAll(async () => {
    const { urls } = await bootstrap({
      adminUrl: cluster.database.url,
      services: ["context"],
      passwordFile: join(folder, "passwords.json"),
    });
    directUrl = urls["context"]!;
    // Fewer than one pod's own pool: connections pass from one to the other.
    pooler = await Pooler.start({ databaseUrl: directUrl, serverConnections: 5 });
    const env = { DATABASE_URL: pooler.url, DATABASE_DIRECT_URL: directUrl, DATABASE_POOLER: "transaction" };
    const migration = ServiceProcess.spawn(
      main,
      {
        ...env,
        ITERATE_SECRET_KEYS: cluster.deployment.secretKeys,
        ITERATE_TRUSTED_KEYS_FILE: cluster.deployment.files.trustedKeysFile,
      },
      { args: ["migrate"] },
    );
    expect((await migration.exited).code, migration.lines.join("\n")).toBe(0);
    const pod = { DATABASE_DIRECT_URL: directUrl, DATABASE_POOLER: "transaction" };
    await Promise.all([cluster.addPod(pod, pooler.url), cluster.addPod(pod, pooler.url)]);
  }, 120_000);
  afterAll(async () => {
    await cluster.endPods();
    await pooler?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test(
    "two processes that share five connections keep every promise",
    async () => {
      const load = cluster.load({ writers: 12 });
      await load.acknowledged(count(100));
      await cluster.expectAllPromises(load, null, [directUrl]);
      const [sessions] = await select<{ open: number }>(
        cluster.database.url,
        "select count(*)::int as open from pg_stat_activity where usename = 'iterate_context' and application_name <> 'truth'",
      );
      expect(sessions!.open).toBeGreaterThan(0);
      expect(sessions!.open).toBeLessThanOrEqual(5);
    },
    testBoundMs,
  );

  test(
    "a connection cut between a commit and its answer is found by its id",
    async () => {
      const load = cluster.load();
      await load.acknowledged(10);
      for (let round = 0; round < count(2); round += 1) {
        await cluster.pod(round % 2).database.cutAtAnswer({ afterClientText: '"mark":"' });
        await load.acknowledged(10);
      }
      await cluster.expectAllPromises(load, null, [directUrl]);
    },
    testBoundMs,
  );
});
