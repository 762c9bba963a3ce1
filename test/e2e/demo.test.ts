/** `make demo ONESHOT=1`: every example payload of GitHub goes through the whole platform, each step verified by the demo itself. */
import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

test("the demo does the main job on every example delivery and ends well", { timeout: 240_000 }, async () => {
  const program = join(root, "deploy/local/src/demo-main.ts");
  const { stdout } = await run(process.execPath, ["--conditions=iterate-source", "--import", "tsx", program], {
    cwd: root,
    env: { ...process.env, ONESHOT: "1" },
    timeout: 230_000,
  });
  expect(stdout).toContain("329 signed deliveries of 58 events");
  expect(stdout).toMatch(/publish ctx\.\d+ {2}context producer/);
  expect(stdout).toContain("deliver  runner consumer");
  expect(stdout).toContain("every step held");
});
