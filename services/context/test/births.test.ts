/** A birth is told to the parent although the process that gave it is killed, at each step of telling. */
import { fileURLToPath } from "node:url";
import { ContextLog } from "@iterate-platform/service/context-log";
import { newId } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { eventually, useNats, useTestDatabase } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ContextProcess, Deployment } from "./context-process.js";

const database = useTestDatabase();
const nats = useNats({ jetstream: true });
const owner = newId("prj");
let deployment: Deployment;
beforeAll(async () => {
  await migrate({ url: database.url, dir: fileURLToPath(new URL("../migrations", import.meta.url)) });
  deployment = await Deployment.make();
});
afterAll(() => deployment?.remove());

const start = (env: Readonly<Record<string, string>> = {}): Promise<ContextProcess> =>
  ContextProcess.start({ deployment, databaseUrl: database.url, natsUrl: nats.url, env: { BIRTH_SWEEP_MS: "200", ...env } });

test.for(["children.before-tell", "children.told"])("killed at %s", { timeout: 90_000 }, async (point) => {
  const parent = `/${point.replace(".", "-")}`;
  const first = await start({ FAILPOINTS: `${point}=kill` });
  const born = new ContextLog(first.as("ingress").context, { owner, path: parent }, { principal: "usr_1" });
  await born.append([{ type: "test/a" }]);
  const child = new ContextLog(first.as("ingress").context, { owner, path: `${parent}/child` }, { principal: "usr_1" });
  // It may be killed for the parent's own birth, before this one is answered.
  await child.append([{ type: "test/a" }]).catch(() => undefined);
  await first.exited;

  const heir = await start();
  const again = new ContextLog(heir.as("ingress").context, { owner, path: `${parent}/child` }, { principal: "usr_1" });
  await again.append([{ type: "test/a" }]);
  const log = new ContextLog(heir.as("ingress").context, { owner, path: parent }, { principal: "usr_1" });
  const told = async () => (await log.read({ types: [itx.childCreated.type] })).events.map(({ payload }) => payload);
  await eventually(async () => (await told()).length > 0, { timeoutMs: 30_000, intervalMs: 100 });
  expect(await told()).toEqual([{ childPath: `${parent}/child` }]);
  await heir.stop();
});
