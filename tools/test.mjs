// Runs the suites and ends with one line that anybody can read: `tests: N passed, N failed`. A run that fails without a failed
// test (a file that does not load, a broken set-up) counts as one failure. Arguments go to vitest.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";

const report = ".cache/tests.json";
mkdirSync(".cache", { recursive: true });
rmSync(report, { force: true });

const { status } = spawnSync(
  process.execPath,
  [
    "node_modules/vitest/vitest.mjs",
    "run",
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
    ...process.argv.slice(2),
  ],
  { stdio: "inherit" },
);

const {
  numPassedTests: passed = 0,
  numFailedTests = 0,
  numPendingTests: skipped = 0,
} = existsSync(report) ? JSON.parse(readFileSync(report, "utf8")) : {};
const failed = status === 0 ? numFailedTests : Math.max(1, numFailedTests);
if (skipped > 0) console.log(`tests: ${skipped} skipped`);
console.log(`tests: ${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
