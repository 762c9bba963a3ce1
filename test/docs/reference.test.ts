import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { root } from "./pages.js";

it("the generated pages say what the code says", () => {
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--conditions=iterate-source", "--import", "tsx", "tools/docs.mjs", "--check"],
    { cwd: root, encoding: "utf8", timeout: 60_000 },
  );
  expect(stderr).toBe("");
  expect(status).toBe(0);
});
