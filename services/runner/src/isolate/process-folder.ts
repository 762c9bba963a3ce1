/** The private folder of one process: its sockets, and until it listens the bundle and the config. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { WorkerdSockets } from "./workerd-config.js";

const prefix = "iterate-isolate-";

export class ProcessFolder {
  readonly path: string;
  readonly sockets: WorkerdSockets;

  private constructor(path: string) {
    this.path = path;
    this.sockets = { inPath: join(path, "in"), hostPath: join(path, "host"), egressPath: join(path, "egress") };
  }

  /** Mode 0700, in the machine's temporary folder: the path of a unix socket has at most 107 bytes. */
  static async create(): Promise<ProcessFolder> {
    return new ProcessFolder(await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`)));
  }

  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}

/** Removes what a supervisor that was killed left behind: folders named after a process that is gone. */
export async function removeAbandonedFolders(): Promise<void> {
  const names = await readdir(tmpdir());
  const abandoned = names.filter((name) => name.startsWith(prefix) && !isAlive(Number(name.slice(prefix.length).split("-")[0])));
  await Promise.all(abandoned.map((name) => rm(join(tmpdir(), name), { recursive: true, force: true })));
}

/** Also true for a process of another user, and for a name that tells no pid: those are not ours to remove. */
function isAlive(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}
