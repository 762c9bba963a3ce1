/**
 * The system's git as a child process: no configuration but ours, no hook of a repository, limits on memory, CPU and written bytes set
 * before it starts, and an end by SIGKILL to its whole group at the deadline.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { codedError, type CodedError } from "iterate/lib";

export interface GitLimits {
  readonly cpuS: number;
  readonly memoryMiB: number;
  /** Largest file git may write, bytes. */
  readonly maxWriteBytes: number;
}

export interface GitOptions {
  readonly limits: GitLimits;
  /** Where git and the programs it starts are found. */
  readonly searchPath: string;
}

/** Environment of the repository a command works on. */
export type GitEnv = Readonly<Record<string, string>>;

export interface GitRun {
  readonly args: readonly string[];
  readonly env?: GitEnv;
  readonly input?: Uint8Array | string;
  readonly deadlineMs?: number;
  readonly signal?: AbortSignal;
  /** Bytes of standard output kept. */
  readonly maxOutputBytes?: number;
  /** Output beyond the limit: an error (the default), or the end of the command with what there is. */
  readonly onOverflow?: "refuse" | "cut";
  /** Exit codes that are answers. */
  readonly accept?: readonly number[];
}

export interface GitResult {
  readonly code: number;
  readonly output: Buffer;
  /** The first bytes of standard error. */
  readonly stderr: string;
}

/** A command that said no: what it said is for the log, and for the pusher of what it was asked to read. */
export class GitFailure extends Error {
  override readonly name = "GitFailure";
  constructor(
    readonly command: string,
    readonly code: number | null,
    readonly stderr: string,
  ) {
    super(`git ${command} ended with ${code ?? "a signal"}: ${stderr.trim().slice(0, 2000)}`);
  }
}

const defaultDeadlineMs = 30_000;
const defaultOutputBytes = 32 * 1024 * 1024;
const maxStderrBytes = 8192;

/**
 * Set in the environment of every git process, where it counts as given on the command line and wins over every file. Packs are read
 * through small windows and large blobs are streamed, so that memory stays far below the limit.
 */
const configuration: readonly (readonly [string, string])[] = [
  ["safe.directory", "*"],
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["core.attributesFile", "/dev/null"],
  ["core.excludesFile", "/dev/null"],
  ["core.bigFileThreshold", "4m"],
  ["core.packedGitWindowSize", "32m"],
  ["core.packedGitLimit", "256m"],
  ["core.deltaBaseCacheLimit", "32m"],
  ["core.logAllRefUpdates", "false"],
  ["core.quotePath", "false"],
  ["pack.threads", "1"],
  ["pack.windowMemory", "64m"],
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["protocol.allow", "never"],
  ["submodule.recurse", "false"],
  ["fetch.fsckObjects", "true"],
  ["transfer.fsckObjects", "true"],
  ["receive.fsckObjects", "true"],
  ["receive.unpackLimit", "1"],
  ["receive.autogc", "false"],
  ["receive.denyDeletes", "false"],
  ["receive.denyNonFastForwards", "false"],
  ["receive.advertisePushOptions", "false"],
  ["uploadpack.allowFilter", "true"],
  ["http.receivepack", "true"],
  ["http.uploadpack", "true"],
  ["http.getanyfile", "false"],
];

export class Git {
  readonly #options: GitOptions;

  constructor(options: GitOptions) {
    this.#options = options;
  }

  /** Runs a command to its end. Throws GitFailure, DEADLINE_EXCEEDED or CANCELLED. */
  async run(run: GitRun): Promise<GitResult> {
    const command = run.args[0]!;
    const { signal } = run;
    if (signal?.aborted) throw codedError("CANCELLED", "the caller went away");
    const child = this.spawn(run.args, run.env ?? {}, ["pipe", "pipe", "pipe"]);
    let ended: "deadline" | "cancelled" | "overflow" | undefined;
    const end = (why: NonNullable<typeof ended>): void => {
      ended ??= why;
      endGroup(child);
    };
    const timer = setTimeout(() => end("deadline"), run.deadlineMs ?? defaultDeadlineMs);
    const onAbort = (): void => end("cancelled");
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      const maxBytes = run.maxOutputBytes ?? defaultOutputBytes;
      const pieces: Buffer[] = [];
      let bytes = 0;
      child.stdout!.on("data", (piece: Buffer) => {
        pieces.push(piece.subarray(0, Math.max(0, maxBytes - bytes)));
        bytes += piece.byteLength;
        if (bytes > maxBytes) end("overflow");
      });
      const stderr = collectText(child);
      // A command that needs no more input closes it.
      child.stdin!.on("error", () => undefined);
      child.stdin!.end(run.input ?? "");
      const code = await exitOf(child);
      if (ended === "cancelled") throw codedError("CANCELLED", "the caller went away");
      if (ended === "deadline")
        throw codedError("DEADLINE_EXCEEDED", `git ${command} did not end within ${run.deadlineMs ?? defaultDeadlineMs} ms`);
      if (ended === "overflow" && run.onOverflow !== "cut")
        throw codedError("INVALID_INPUT", `git ${command} answered more than ${maxBytes} bytes, which is the limit`);
      if (ended === undefined && (code === null || !(run.accept ?? [0]).includes(code)))
        throw new GitFailure(command, code, stderr());
      return { code: code ?? 0, output: Buffer.concat(pieces), stderr: stderr() };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      endGroup(child);
    }
  }

  /** Standard output of a command as text without its last newline. */
  async text(args: readonly string[], env: GitEnv): Promise<string> {
    return (await this.run({ args, env })).output.toString("utf8").replace(/\n$/, "");
  }

  /** Starts a command whose ends the caller holds; it must end the group. `config` goes over the fixed configuration. */
  spawn(
    args: readonly string[],
    env: GitEnv,
    stdio: ("pipe" | "ignore")[],
    config: readonly (readonly [string, string])[] = [],
  ): ChildProcess {
    const { cpuS, memoryMiB, maxWriteBytes } = this.#options.limits;
    return spawn(
      "prlimit",
      [
        `--data=${memoryMiB * 1024 * 1024}`,
        `--cpu=${cpuS}`,
        `--fsize=${maxWriteBytes}`,
        "--nofile=512",
        "--core=0",
        "--",
        "git",
        ...args,
      ],
      {
        env: { ...this.#environment(config), ...env },
        stdio,
        detached: true,
        cwd: "/",
      },
    );
  }

  #environment(config: readonly (readonly [string, string])[]): Record<string, string> {
    const all = [...configuration, ...config];
    return {
      PATH: this.#options.searchPath,
      HOME: "/nonexistent",
      LC_ALL: "C.UTF-8",
      TZ: "UTC",
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_ATTR_NOSYSTEM: "1",
      GIT_TERMINAL_PROMPT: "0",
      GIT_NO_REPLACE_OBJECTS: "1",
      GIT_OPTIONAL_LOCKS: "0",
      GIT_CONFIG_COUNT: String(all.length),
      ...Object.fromEntries(
        all.flatMap(([key, value], at) => [
          [`GIT_CONFIG_KEY_${at}`, key],
          [`GIT_CONFIG_VALUE_${at}`, value],
        ]),
      ),
    };
  }
}

/** Ends a child and whatever it started. */
export function endGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // The group is gone.
  }
}

/** Resolves when the child is gone and its pipes are closed. Throws INTERNAL when it could not be started. */
export function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once("error", (error) => reject(cannotStart(error)));
    child.once("close", resolve);
  });
}

/** Keeps the first bytes of a child's standard error. */
export function collectText(child: ChildProcess): () => string {
  let text = "";
  child.stderr!.setEncoding("utf8").on("data", (piece: string) => {
    if (text.length < maxStderrBytes) text += piece.slice(0, maxStderrBytes - text.length);
  });
  return () => text;
}

const cannotStart = (error: Error): CodedError => codedError("INTERNAL", `git cannot be started: ${error.message}`);
