/** What the machine must offer before an isolate can run on it. */
import { accessSync, constants, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";

export interface IsolatePrograms {
  readonly workerd: string;
  readonly prlimit: string;
  readonly setpriv: string;
}

/**
 * Paths of the programs an isolate is started with.
 * @throws Error naming what the machine lacks and how to get it; nothing but a person can help.
 */
export function isolatePrograms(platform: NodeJS.Platform = process.platform, path = process.env["PATH"] ?? ""): IsolatePrograms {
  if (platform !== "linux" || !existsSync("/proc/self/stat")) {
    throw new Error(
      `Isolates need Linux with /proc mounted; this is ${platform}. Run runner-isolate in a container or on a Linux machine.`,
    );
  }
  return { workerd: workerdBinary(), prlimit: program("prlimit", path), setpriv: program("setpriv", path) };
}

function program(name: string, path: string): string {
  const found = [...path.split(delimiter), "/usr/bin", "/bin"].map((folder) => join(folder, name)).find(isExecutable);
  if (found === undefined)
    throw new Error(`Isolates need the program ${name}, part of util-linux, and it is in no folder of PATH. Install util-linux.`);
  return found;
}

// The launcher of the package is a script that itself spawns; the platform's package holds the binary.
function workerdBinary(): string {
  const arch = { x64: "64", arm64: "arm64" }[process.arch as string];
  if (arch === undefined) throw new Error(`workerd has no build for ${process.arch}; isolates run on x64 and arm64.`);
  const require = createRequire(import.meta.url);
  const fromWorkerd = createRequire(require.resolve("workerd/package.json"));
  try {
    return fromWorkerd.resolve(`@cloudflare/workerd-linux-${arch}/bin/workerd`);
  } catch {
    throw new Error(`The package @cloudflare/workerd-linux-${arch} is not installed; run npm ci on this machine.`);
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
