/** A copy of this service with one bug in it, and what finds the bug there. */
import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { PlantedBug } from "./bugs.js";

const service = fileURLToPath(new URL("../..", import.meta.url));
const repository = join(service, "../..");
/** Within the repository, where packages are found; ignored by everything that reads sources. */
const fields = join(repository, ".cache/planted");

export interface Finding {
  readonly isFound: boolean;
  readonly output: string;
}

/** Throws when the text that the bug replaces is not exactly once in its file. */
export function planted({ name, edits }: PlantedBug, file: string, text: string): string {
  let edited = text;
  for (const { from, to } of edits.filter((edit) => edit.file === file)) {
    const parts = edited.split(from);
    if (parts.length !== 2) throw new Error(`"${name}": ${file} holds ${parts.length - 1} times, not once: ${from}`);
    edited = parts.join(to);
  }
  return edited;
}

/** Plants the bug in a copy and runs `program` of the copy there; it ends with 1 when it finds something. */
export async function runPlanted(bug: PlantedBug, program: string, args: readonly string[], boundMs: number): Promise<Finding> {
  await mkdir(fields, { recursive: true });
  const field = await mkdtemp(join(fields, "bug-"));
  try {
    for (const part of ["src", "test", "migrations", "package.json"])
      await cp(join(service, part), join(field, part), { recursive: true });
    for (const file of new Set(bug.edits.map(({ file }) => file))) {
      const path = join(field, "src", file);
      await writeFile(path, planted(bug, file, await readFile(path, "utf8")));
    }
    return await run(join(field, program), args, boundMs);
  } finally {
    await rm(field, { recursive: true, force: true });
  }
}

function run(program: string, args: readonly string[], boundMs: number): Promise<Finding> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--conditions=iterate-source", "--import", "tsx", program, ...args], {
      cwd: repository,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: boundMs,
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => void (output += chunk.toString()));
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === 0 || code === 1) resolve({ isFound: code === 1, output });
      else reject(new Error(`${program} ended with ${code ?? signal}: ${output}`));
    });
  });
}
