import { archiveHeaderLine } from "@iterate-platform/service/archive-header";
import { useTestDatabase } from "@iterate-platform/testing";
import { codedError } from "iterate/lib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ArchivePod, newImport } from "../archive/archive.fixture.js";
import { migrateLog, owner } from "../log/engine.fixture.js";
import { archiveHandlers } from "./archive.js";

const database = useTestDatabase();
let pod: ArchivePod;
beforeAll(async () => {
  await migrateLog(database.url);
  pod = new ArchivePod(database.url);
});
afterAll(() => pod.close());

test("an import that begins after it was removed leaves nothing, and its project is not barred", async () => {
  const { exports, stages, archives } = pod;
  const handlers = archiveHandlers({ exports, stages, stores: [archives], nowMs: () => performance.now() });
  const [stageImport, removeImport] = [handlers.stageImport, handlers.removeImport] as unknown as ((
    request: unknown,
  ) => Promise<unknown>)[];
  const importId = newImport();
  const header = `${archiveHeaderLine({ of: "project", owner, slug: "shop", exportedAt: "2030-01-01T00:00:00.000Z" })}
{"kind":"context","path":"/","firstOffset":1,"through":7,"reservedThrough":7}\n`;
  const empty = await pod.size();
  await expect(removeImport!({ importId })).resolves.toEqual({ done: true });
  const broken = async function* () {
    yield { importId, owner, replace: false, data: Buffer.from(header) };
    throw codedError("CANCELLED", "the caller has gone");
  };
  await expect(stageImport!(broken())).rejects.toMatchObject({ code: "CANCELLED" });
  expect(await pod.size()).toEqual(empty);
  await expect(pod.engine.append("/born", [{}])).resolves.toHaveLength(1);
});
