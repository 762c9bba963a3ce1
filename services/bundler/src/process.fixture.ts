/** The bundler and its worker as real processes, for tests. */
import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export interface RunningProcess {
  readonly ports: Readonly<Record<string, number>>;
  readonly pid: number;
  readonly lines: readonly string[];
  /** Resolves to the exit code, null when a signal ended it. */
  readonly exited: Promise<number | null>;
  signal(signal: NodeJS.Signals): void;
}

const startWithinMs = 30_000;

/** Starts `program` of this workspace's sources; resolves once it serves. Rejects with its last lines when it ends before. */
export async function startProcess(
  program: "main.ts" | "worker-main.ts",
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
): Promise<RunningProcess> {
  const child = spawn(
    process.execPath,
    ["--conditions=iterate-source", "--import", "tsx", fileURLToPath(new URL(`./${program}`, import.meta.url)), ...args],
    {
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  process.once("exit", () => child.kill("SIGKILL"));
  const lines: string[] = [];
  const exited = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const ports = await serving(child, lines, exited);
  return { ports, pid: child.pid!, lines, exited, signal: (signal) => void child.kill(signal) };
}

function serving(child: ChildProcess, lines: string[], exited: Promise<number | null>): Promise<Record<string, number>> {
  return new Promise((resolve, reject) => {
    const fail = (why: string): void => reject(new Error(`${why}:\n${lines.slice(-10).join("\n")}`));
    const timer = setTimeout(() => fail("it does not serve"), startWithinMs);
    createInterface({ input: child.stderr! }).on("line", (line) => {
      lines.push(line);
      if (!line.includes('"message":"serving"')) return;
      clearTimeout(timer);
      resolve((JSON.parse(line) as { ports: Record<string, number> }).ports);
    });
    void exited.then((code) => {
      clearTimeout(timer);
      fail(`it ended with ${code}`);
    });
  });
}
