/**
 * What one stack keeps on disk, all below one folder (`.iterate` unless ITERATE_STATE_DIR names another): keys, the admin token,
 * database passwords, Postgres and JetStream files, logs. A stack at work holds the folder: a second start on it is refused.
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createHash, randomBytes } from "node:crypto";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { keyFiles } from "@iterate-platform/service/trust";
import { isReachableByOthers, lastingFolder, serverAccount } from "@iterate-platform/testing/account";

export const repositoryRoot = fileURLToPath(new URL("../../..", import.meta.url));

export interface StatePaths {
  folder: string;
  keysFolder: string;
  trustedKeysFile: string;
  keyFile(service: string): string;
  /** The key-encryption keys of project secrets. */
  secretKeysFile: string;
  adminTokenFile: string;
  passwordFile: string;
  natsFolder: string;
  logsFolder: string;
  lockFile: string;
}

/** The state folder ITERATE_STATE_DIR names, else `.iterate` of this clone. */
export function stateFolderFrom(env: NodeJS.ProcessEnv): string {
  return resolve(env.ITERATE_STATE_DIR || join(repositoryRoot, ".iterate"));
}

/** Where things are in a state folder, which is made when missing. */
export function statePaths(folder: string): StatePaths {
  // Others may pass, because Postgres of a root's stack runs as another account; what is inside is closed on its own.
  mkdirSync(folder, { recursive: true, mode: 0o755 });
  const keysFolder = join(folder, "keys");
  const keys = keyFiles(keysFolder);
  return {
    folder,
    keysFolder,
    trustedKeysFile: keys.trustedKeysFile,
    keyFile: (service) => keys.keyFile(service),
    secretKeysFile: join(keysFolder, "secret-keys.json"),
    adminTokenFile: join(folder, "admin-token"),
    passwordFile: join(folder, "passwords.json"),
    natsFolder: join(folder, "nats"),
    logsFolder: join(folder, "logs"),
    lockFile: join(folder, "stack.json"),
  };
}

/**
 * Where Postgres keeps its files: in the state folder, or, when that is out of its account's sight, in a lasting folder that
 * `postgres-data` of the state folder points to.
 */
export function postgresDataFolder(state: StatePaths): string {
  const inside = join(state.folder, "postgres");
  if (serverAccount() === undefined || isReachableByOthers(state.folder)) return inside;
  const link = join(state.folder, "postgres-data");
  const target = lastingFolder(join("data", createHash("sha256").update(state.folder).digest("hex").slice(0, 16)));
  if (!existsSync(link)) symlinkSync(target, link);
  return join(target, "postgres");
}

/** Removes a state folder and what it points to. */
export function removeState(folder: string): void {
  const link = join(folder, "postgres-data");
  try {
    rmSync(readlinkSync(link), { recursive: true, force: true });
  } catch {
    // There is no link unless root needed one.
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}

/** A secret of the state folder, made on first use, readable by its owner alone. */
export function secretFile(path: string): string {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `${randomBytes(32).toString("base64url")}\n`, { mode: 0o600, flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    chmodSync(path, 0o600);
  }
  return readFileSync(path, "utf8").trim();
}

interface Holder {
  pid: number;
  startedAt: string;
  portBase: number;
}

/** Another stack works on this state. */
export class StateHeldError extends Error {
  constructor(folder: string, holder: Holder) {
    super(
      `a stack already runs on ${folder}: process ${holder.pid}, ports from ${holder.portBase}. Stop it, or set ITERATE_STATE_DIR and ITERATE_PORT_BASE.`,
    );
    this.name = "StateHeldError";
  }
}

/**
 * Takes the state folder for this process until the answered function is called. A holder that died without giving it back does
 * not hold it.
 *
 * @throws StateHeldError when a living process holds it.
 */
export function holdState(state: StatePaths, portBase: number): () => void {
  const mine: Holder = { pid: process.pid, startedAt: processStart(process.pid) ?? "", portBase };
  for (;;) {
    try {
      writeFileSync(state.lockFile, JSON.stringify(mine), { flag: "wx" });
      return () => rmSync(state.lockFile, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const holder = readHolder(state.lockFile);
    if (holder !== undefined && processStart(holder.pid) === holder.startedAt) throw new StateHeldError(state.folder, holder);
    rmSync(state.lockFile, { force: true });
  }
}

function readHolder(path: string): Holder | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Holder;
  } catch {
    return undefined;
  }
}

/** When a living process started, in the kernel's ticks: with its id, it names one process for good. */
function processStart(pid: number): string | undefined {
  try {
    // The name, in parentheses, may hold anything; the fields after it are fixed.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(")").at(-1)?.trim().split(" ");
    return fields?.[19];
  } catch {
    try {
      process.kill(pid, 0);
      return "";
    } catch {
      return undefined;
    }
  }
}
