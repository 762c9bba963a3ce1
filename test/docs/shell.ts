/** The terminal of a reader: blocks run one after the other, each where the last one left off, with what it exported. */
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readFile } from "node:fs/promises";

/** Longest block. */
export const blockMs = 60_000;
const maxOutput = 256 * 1024;

export interface Ran {
  /** Exit code; null when the block was ended because it took too long. */
  readonly code: number | null;
  /** Both streams, as they came. */
  readonly output: string;
}

export class Shell {
  readonly #folder: string;
  readonly #environment: NodeJS.ProcessEnv;

  /** `folder` is empty and the shell's own; readers start in `work` below it. */
  constructor(folder: string, environment: NodeJS.ProcessEnv) {
    this.#folder = folder;
    this.#environment = environment;
    const work = join(folder, "work");
    mkdirSync(work);
    writeFileSync(this.#place, work);
    writeFileSync(this.#exports, "");
  }

  get #place(): string {
    return join(this.#folder, "place");
  }

  get #exports(): string {
    return join(this.#folder, "exports.sh");
  }

  /** Saves a file, from where the last block left off. */
  async save(path: string, content: string): Promise<void> {
    const target = join((await readFile(this.#place, "utf8")).trim(), path);
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, content);
  }

  /** Runs a block with `set -eu`. Its whole process group ends with it. */
  async run(script: string, timeoutMs: number = blockMs): Promise<Ran> {
    const before = `. '${this.#exports}'\ncd "$(cat '${this.#place}')"\nset -eu\n`;
    const after = `\nset +eu\npwd > '${this.#place}'\nexport -p > '${this.#exports}'\n`;
    const child = spawn("sh", ["-c", `${before}${script}${after}`], {
      cwd: this.#folder,
      env: this.#environment,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    const keep = (chunk: Buffer): void => void (output = `${output}${chunk.toString()}`.slice(-maxOutput));
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    const endGroup = (): void => {
      try {
        process.kill(-(child.pid ?? 0), "SIGKILL");
      } catch {
        // Nothing of it runs any more.
      }
    };
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      endGroup();
    }, timeoutMs);
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (status) => {
        // What the block left running in the background would hold the pipes.
        endGroup();
        child.once("close", () => resolve(status));
      });
    });
    clearTimeout(timer);
    return { code: isLate ? null : code, output };
  }
}
