/**
 * Finding a nats-server, or getting one without any right on the machine: PATH and the sbin folders, `tools/nats`, Debian's
 * package unpacked into `tools/nats`, a pinned release archive checked by its digest.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { findProgram } from "./program.js";

const run = promisify(execFile);

const release = {
  version: "2.10.29",
  sha256: {
    x64: "e314da74a83a1d3876db8814c27eb990fe729640fd6452025b441bcede8390da",
    arm64: "da4b27942ecfb4c5f0c54553d2e7f470ddda9d7581cfe8131b351a0e223ed401",
  } as Readonly<Record<string, string>>,
};

const toolsFolder = fileURLToPath(new URL("../../../tools/nats", import.meta.url));

/** Where a nats-server is on this machine, if there is one. */
export function findNatsServer(folder: string = toolsFolder): string | undefined {
  return findProgram("nats-server") ?? findInside(folder);
}

/**
 * A nats-server, got for this clone when the machine has none. Safe when several processes do it at once.
 *
 * @throws Error with what was tried and the remedies.
 */
export async function ensureNatsServer(folder: string = toolsFolder): Promise<string> {
  const found = findNatsServer(folder);
  if (found !== undefined) return found;
  const failures: string[] = [];
  for (const [name, get] of [
    ["Debian's package", unpackDebian],
    ["the release archive", unpackRelease],
  ] as const) {
    try {
      await install(folder, get);
      const binary = findNatsServer(folder);
      if (binary !== undefined) return binary;
      failures.push(`${name}: it holds no nats-server`);
    } catch (error) {
      failures.push(`${name}: ${reasonOf(error)}`);
    }
  }
  throw new Error(
    `there is no nats-server here and none could be fetched (${failures.join("; ")}). ` +
      `Install one into PATH (\`apt-get install nats-server\`) or put the program at ${join(folder, "nats-server")}.`,
  );
}

/** Fills a folder of its own first, so that `folder` is either absent or whole. */
async function install(folder: string, get: (incoming: string) => Promise<void>): Promise<void> {
  const parent = join(folder, "..");
  mkdirSync(parent, { recursive: true });
  const incoming = mkdtempSync(join(parent, ".nats-"));
  try {
    await get(incoming);
    if (existsSync(folder) && findInside(folder) === undefined) rmSync(folder, { recursive: true, force: true });
    renameSync(incoming, folder);
  } catch (error) {
    // Another process was first: what it made serves.
    if (findInside(folder) === undefined) throw error;
  } finally {
    rmSync(incoming, { recursive: true, force: true });
  }
}

function findInside(folder: string): string | undefined {
  return [join(folder, "usr/sbin/nats-server"), join(folder, "nats-server")].find(isExecutable);
}

async function unpackDebian(incoming: string): Promise<void> {
  await run("apt-get", ["download", "nats-server"], { cwd: incoming, timeout: 60_000 });
  const archive = readdirSync(incoming).find((name) => name.endsWith(".deb"));
  if (archive === undefined) throw new Error("apt-get downloaded nothing");
  await run("dpkg", ["-x", archive, "."], { cwd: incoming, timeout: 60_000 });
  rmSync(join(incoming, archive));
}

async function unpackRelease(incoming: string): Promise<void> {
  const expected = release.sha256[process.arch];
  if (process.platform !== "linux" || expected === undefined)
    throw new Error(`none pinned for ${process.platform}-${process.arch}`);
  const name = `nats-server-v${release.version}-linux-${process.arch === "x64" ? "amd64" : process.arch}`;
  const url = `https://github.com/nats-io/nats-server/releases/download/v${release.version}/${name}.tar.gz`;
  const answer = await fetch(url, { signal: AbortSignal.timeout(60_000) });
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  const archive = Buffer.from(await answer.arrayBuffer());
  const digest = createHash("sha256").update(archive).digest("hex");
  if (digest !== expected) throw new Error(`${url} has sha256 ${digest}, expected ${expected}`);
  writeFileSync(join(incoming, "archive.tar.gz"), archive);
  await run("tar", ["-xzf", "archive.tar.gz", "--strip-components=1"], { cwd: incoming, timeout: 60_000 });
  rmSync(join(incoming, "archive.tar.gz"));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function reasonOf(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message: string };
  return (stderr?.trim() || message).split("\n")[0] ?? message;
}
