/**
 * Throw-away folders of test servers. Each is named for the process that made it, so that the next run can remove what a killed
 * one left behind.
 */
import { readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { serverAccount, temporaryFolder } from "./account.js";

const prefix = "iterate-test-";

/** A new folder for `purpose`, owned by the account servers run as; removed by whoever asked for it. */
export function scratchFolder(purpose: string): string {
  const folder = temporaryFolder(`${prefix}${purpose}-${process.pid}-`, serverAccount());
  sweep(dirname(folder));
  return folder;
}

const sweptParents = new Set<string>();

function sweep(parent: string): void {
  if (sweptParents.has(parent)) return;
  sweptParents.add(parent);
  for (const name of readdirSync(parent)) {
    const owner = /^iterate-test-[a-z]+-(\d+)-/.exec(name)?.[1];
    if (owner === undefined || isAlive(Number(owner))) continue;
    try {
      rmSync(join(parent, name), { recursive: true, force: true });
    } catch {
      // Somebody else's folder, or another run sweeps it now.
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
