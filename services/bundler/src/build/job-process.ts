/**
 * Runs one build in a process of its own: no credential and no variable in its environment, limits on memory, CPU, open files and
 * written bytes set before its first instruction, and an end by SIGKILL to its whole group at the deadline.
 */
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { CodedError, codedError } from "iterate/lib";
import type { BuildLimits, BuildOutput, SourceFile } from "./contract.js";
import { packEnvelope, unpackEnvelope } from "./envelope.js";
import type { JobReply, JobRequest } from "./job-message.js";
import type { PlatformModules } from "./platform-modules.js";
import { buildFailed } from "./problem.js";

export interface JobLimits {
  /** CPU of each process of the job, seconds. */
  readonly cpuS: number;
  /** Private memory of each process, MiB; the runtime sets about 540 of them aside when it starts. */
  readonly memoryMiB: number;
}

export const jobLimits: JobLimits = { cpuS: 30, memoryMiB: 1280 };

export interface JobOptions {
  readonly platform: PlatformModules;
  readonly buildLimits: BuildLimits;
  readonly jobLimits: JobLimits;
}

export interface BuildJobInput {
  readonly entries: readonly string[];
  readonly files: readonly SourceFile[];
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** Bytes of standard error kept for the log. */
const maxStderrBytes = 4096;

/** Room for the names in the answer's header beside the modules themselves. */
const headerAllowance = 4 * 1024 * 1024;

/**
 * Builds the files. Throws BUILD_FAILED when the sources are refused or cost more than a job may; INTERNAL when the process cannot
 * run or dies for no reason of theirs; CANCELLED when `signal` fires. The process is gone when this settles.
 */
export async function runBuildJob(
  { entries, files, deadlineMs, signal }: BuildJobInput,
  options: JobOptions,
): Promise<BuildOutput> {
  if (signal.aborted) throw codedError("CANCELLED", "the caller of the build went away");
  const request: JobRequest = {
    entries,
    files: files.map(({ path, symlink }) => ({ path, symlink })),
    platform: options.platform,
    limits: options.buildLimits,
  };
  const child = spawnJob(options.jobLimits);
  const closed = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  closed.catch(() => undefined);
  let ended: "deadline" | "cancelled" | "output" | undefined;
  const end = (why: typeof ended): void => {
    ended ??= why;
    killGroup(child.pid);
  };
  const timer = setTimeout(() => end("deadline"), deadlineMs);
  const onAbort = (): void => end("cancelled");
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const output = collect(child.stdout, options.buildLimits.maxOutputBytes + headerAllowance, () => end("output"));
    const stderr = collectTail(child.stderr);
    // A process that ended early closes its input; what it answered or how it ended says more than EPIPE.
    child.stdin.on("error", () => undefined);
    for (const piece of packEnvelope({ header: request, parts: files.map((file) => file.data) })) child.stdin.write(piece);
    child.stdin.end();

    const [code, signalName] = await closed.catch((error: unknown) => {
      throw codedError("INTERNAL", `a build job cannot be started: ${error instanceof Error ? error.message : String(error)}`);
    });
    if (ended === "cancelled") throw codedError("CANCELLED", "the caller of the build went away");
    if (ended === "deadline") throw tooCostly(`took longer than ${deadlineMs} ms`);
    if (ended === "output") throw tooCostly(`made more than ${options.buildLimits.maxOutputBytes} bytes`);
    if (signalName === "SIGXCPU" || signalName === "SIGKILL") throw tooCostly(`used more than ${options.jobLimits.cpuS} s of CPU`);
    if (code !== 0)
      throw outOfMemory(stderr())
        ? tooCostly(`used more than ${options.jobLimits.memoryMiB} MiB of memory`)
        : died(code, signalName, stderr());
    return readReply(await output, stderr());
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
    killGroup(child.pid);
  }
}

function spawnJob(limits: JobLimits): ChildProcessByStdio<Writable, Readable, Readable> {
  const isSource = import.meta.url.endsWith(".ts");
  const main = fileURLToPath(new URL(isSource ? "./job-main.ts" : "./job-main.js", import.meta.url));
  // Sources need a loader that compiles them; it may not keep what it compiled, because a job writes no file.
  const loader = isSource ? ["--conditions=iterate-source", "--import", import.meta.resolve("tsx")] : [];
  return spawn(
    "prlimit",
    [
      `--data=${limits.memoryMiB * 1024 * 1024}`,
      `--cpu=${limits.cpuS}`,
      "--nofile=256",
      "--fsize=0",
      "--core=0",
      "--",
      "setpriv",
      "--no-new-privs",
      "--pdeathsig",
      "KILL",
      process.execPath,
      "--max-old-space-size=512",
      ...loader,
      main,
    ],
    { env: isSource ? { TSX_DISABLE_CACHE: "1" } : {}, stdio: ["pipe", "pipe", "pipe"], detached: true, cwd: "/" },
  );
}

/** The job leads its own process group, so esbuild's process goes with it. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group is gone.
  }
}

async function collect(stream: Readable, maxBytes: number, onOverflow: () => void): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of stream as AsyncIterable<Buffer>) {
    bytes += piece.byteLength;
    if (bytes > maxBytes) {
      onOverflow();
      break;
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

function collectTail(stream: Readable): () => string {
  let tail = "";
  stream.setEncoding("utf8").on("data", (text: string) => {
    if (tail.length < maxStderrBytes) tail += text.slice(0, maxStderrBytes - tail.length);
  });
  return () => tail;
}

function readReply(bytes: Buffer, stderr: string): BuildOutput {
  const { header, parts } = unpackEnvelope<JobReply>(bytes);
  switch (header.kind) {
    case "built":
      return { entries: header.entries, modules: header.modules.map((module, index) => ({ ...module, data: parts[index]! })) };
    case "refused":
      throw codedError("BUILD_FAILED", header.message, { problems: header.problems });
    case "crashed":
      // esbuild has no error for sources nested deeper than its stack or larger than its memory: its process just ends.
      if (/service (was stopped|is no longer running)/.test(header.message))
        throw tooCostly("is nested too deeply or needs too much memory to be read");
      throw new CodedError("INTERNAL", "a build job failed", { cause: new Error(`${header.message}\n${stderr}`) });
  }
}

const tooCostly = (what: string): CodedError =>
  buildFailed([{ file: "build", message: `the code ${what}; split it or make it smaller` }]);

const outOfMemory = (stderr: string): boolean =>
  /out of memory|OOM|allocation failed|std::bad_alloc|cannot allocate memory/i.test(stderr);

const died = (code: number | null, signal: NodeJS.Signals | null, stderr: string): CodedError =>
  new CodedError("INTERNAL", `a build job's process ended with ${signal ?? `code ${code}`}`, { cause: new Error(stderr) });
