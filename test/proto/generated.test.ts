import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

test("the contracts pass lint, break nothing released, and are what the stubs are generated from", () => {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const { status, stdout, stderr } = spawnSync("sh", ["tools/proto.sh", "check"], { cwd: root, encoding: "utf8", timeout: 60_000 });
  expect(status, stdout + stderr).toBe(0);
}, 90_000);
