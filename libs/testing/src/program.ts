/**
 * Programs of the machine that a suite needs (git, chromium, prometheus …). A suite without its program is skipped and says so;
 * with REQUIRE_ALL=1 it fails instead, so that a gate never passes by not looking.
 */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

const sbinFolders = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/** Where a program is: in PATH or an sbin folder. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? "").split(delimiter), ...sbinFolders].filter((folder) => folder !== "");
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

/**
 * Whether every program is here: `describe.skipIf(!hasPrograms("chromium"))`.
 *
 * @throws Error naming those that are missing when REQUIRE_ALL is 1.
 */
export function hasPrograms(...names: readonly string[]): boolean {
  const missing = names.filter((name) => findProgram(name) === undefined);
  if (missing.length === 0) return true;
  const message = `not installed: ${missing.join(", ")} (as root, \`make test\` installs what tools/apt-packages.txt lists)`;
  if (process.env.REQUIRE_ALL === "1") throw new Error(message);
  process.stderr.write(`suite skipped, ${message}\n`);
  return false;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
