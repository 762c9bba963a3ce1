/** Ten pods that start on an empty database at once, each migrating before it serves, as a first installation does. */
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { eventually } from "@iterate-platform/testing";
import { ServiceProcess } from "@iterate-platform/testing/service-process";
import { expect, test } from "vitest";
import { migrationsDir, useCluster } from "./cluster.js";
import { count, isLong, testBoundMs } from "./scale.js";
import { select } from "./truth.js";

const main = fileURLToPath(new URL("../../services/context/src/main.ts", import.meta.url));
const cluster = useCluster({ pods: 0 });
const pods = 10;

test.for(Array.from({ length: isLong ? 20 : 1 }, (_, round) => round))(
  "all come through, and each migration is applied once (round %i)",
  { timeout: testBoundMs },
  async () => {
    const database = await cluster.postgres.createDatabase();
    const migrations = Array.from({ length: pods }, () =>
      ServiceProcess.spawn(
        main,
        {
          DATABASE_URL: "postgres://nobody@127.0.0.1:1/pooler",
          DATABASE_DIRECT_URL: database.url,
          ITERATE_SECRET_KEYS: cluster.deployment.secretKeys,
          ITERATE_TRUSTED_KEYS_FILE: cluster.deployment.files.trustedKeysFile,
        },
        { args: ["migrate"] },
      ),
    );
    for (const migration of migrations)
      expect(await migration.exited, migration.lines.join("\n")).toEqual({ code: 0, signal: null });
    const files = readdirSync(migrationsDir).filter((name) => name.endsWith(".sql"));
    const applied = migrations.flatMap(({ lines }) =>
      lines.flatMap((line) =>
        line.includes('"migration applied"') ? [(JSON.parse(line) as { migration: string }).migration] : [],
      ),
    );
    expect(applied.sort()).toEqual(files.sort());
    const rows = await select<{ name: string }>(database.url, "select name from schema_migration order by number");
    expect(rows.map(({ name }) => name)).toEqual(files);

    const databaseUrl = database.url;
    const pod = await cluster.addPod({}, databaseUrl);
    await eventually(async () => (await pod.process.admin("/readyz")).status === 200);
    const load = cluster.load();
    await load.acknowledged(count(5));
    await cluster.expectAllPromises(load, null, [databaseUrl]);
    await cluster.endPods();
    await database.drop();
  },
);
