/**
 * The file that keeps generated database passwords on one machine: JSON, readable by its owner alone, replaced as a whole.
 */
import { mkdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { codedError } from "iterate/lib";

export type Passwords = Readonly<Record<string, string>>;

/**
 * The passwords kept so far; none when there is no file yet.
 *
 * @throws CodedError FORBIDDEN when others may read the file.
 */
export async function readPasswords(path: string): Promise<Passwords> {
  try {
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0) throw codedError("FORBIDDEN", `${path} holds passwords and can be read by others: chmod 600 it`);
    return JSON.parse(await readFile(path, "utf8")) as Passwords;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
}

/** Replaces the file in one step: a reader sees the old passwords or the new ones. */
export async function writePasswords(path: string, passwords: Passwords): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const incoming = `${path}.${process.pid}.${performance.now()}`;
  await writeFile(incoming, `${JSON.stringify(passwords, null, 2)}\n`, { mode: 0o600 });
  await rename(incoming, path);
}
