/** The folder of a process's cache of repositories: the one it is told, or a temporary one that it removes. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const prefix = "iterate-bundler-";

export interface ReposDir {
  readonly path: string;
  /** Removes a temporary folder; a named one is kept for the next process. */
  close(): void;
}

/** Temporary folders carry the process's id, so that what a killed one left behind is removed by the next. */
export function openReposDir(named: string | undefined): ReposDir {
  if (named !== undefined) {
    mkdirSync(named, { recursive: true });
    return { path: named, close: () => undefined };
  }
  for (const name of readdirSync(tmpdir())) {
    const pid = new RegExp(`^${prefix}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) remove(join(tmpdir(), name));
  }
  const path = mkdtempSync(join(tmpdir(), `${prefix}${process.pid}-`));
  return { path, close: () => remove(path) };
}

function remove(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Another account's folder, or another process removes it now.
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
