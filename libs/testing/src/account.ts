/**
 * Postgres refuses to run as root. As root its processes run as an unprivileged account instead, and everything they touch
 * lives in folders that account can reach: a clone below a 0700 home is out of its sight.
 */
import { execFileSync } from "node:child_process";
import { accessSync, chownSync, constants, mkdirSync, mkdtempSync, realpathSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export interface Account {
  uid: number;
  gid: number;
}

/** The account servers run as: undefined when this process may run them itself, `nobody` when it is root. */
export function serverAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string): number => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }).trim());
  return { uid: id("-u"), gid: id("-g") };
}

/** Whether every folder above `path` lets other accounts pass. */
export function isReachableByOthers(path: string): boolean {
  for (let folder = realpathSync(path); ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}

/** A new folder below the system's temporary folder, for `account` alone. */
export function temporaryFolder(prefix: string, account: Account | undefined): string {
  const parent = [tmpdir(), "/var/tmp", "/tmp"].find((path) => isWritable(path) && (!account || isReachableByOthers(path)));
  if (parent === undefined) throw new Error(`no temporary folder is writable: ${tmpdir()}, /var/tmp, /tmp`);
  const folder = mkdtempSync(join(parent, prefix));
  if (account) chownSync(folder, account.uid, account.gid);
  return folder;
}

/**
 * Where root keeps what `account` must reach for longer than one run: below /var/lib where that is writable, because only root
 * can plant anything there.
 */
export function lastingFolder(name: string): string {
  const parent = isWritable("/var/lib") ? "/var/lib/iterate-platform" : join(tmpdir(), `iterate-platform-${process.getuid?.()}`);
  const folder = join(parent, name);
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  if (statSync(parent).uid !== process.getuid?.()) throw new Error(`${parent} belongs to somebody else: remove it`);
  return folder;
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
