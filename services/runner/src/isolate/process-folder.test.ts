import { existsSync, mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ProcessFolder, removeAbandonedFolders } from "./process-folder.js";

test("folders of supervisors that are gone are removed, those of living ones and of nobody are not", async () => {
  const mine = await ProcessFolder.create();
  const gone = join(tmpdir(), "iterate-isolate-2147483646-abc");
  const odd = join(tmpdir(), "iterate-isolate-odd-abc");
  for (const folder of [gone, odd]) mkdirSync(folder, { recursive: true });
  await removeAbandonedFolders();
  expect([mine.path, gone, odd].map((path) => existsSync(path))).toEqual([true, false, true]);
  await mine.remove();
  rmSync(odd, { recursive: true });
});
