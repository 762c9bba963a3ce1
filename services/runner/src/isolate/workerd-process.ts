/**
 * One workerd process from spawn to reaping. States: starting → listening → ended; it ends by itself, or by `end`, which kills: workerd
 * ignores SIGTERM while code runs. The process has no environment, its own process group, no core dumps, bounded memory and files,
 * cannot gain privileges, dies with its parent, and is the kernel's first choice when memory runs out.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { writeFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { codedError } from "iterate/lib";
import type { Bundle } from "./bundle.js";
import type { Ending } from "./ending.js";
import { LineSplitter } from "./line-splitter.js";
import type { IsolateLimits } from "./limits.js";
import type { IsolatePrograms } from "./platform.js";
import type { ProcessFolder } from "./process-folder.js";
import { readProcessStat, type ProcessStat } from "./process-stat.js";
import { startMessage } from "./project-names.js";
import { startVerdict } from "./watchdog.js";
import { configFileName, workerdFiles } from "./workerd-config.js";

export interface WorkerdStart {
  readonly bundle: Bundle;
  readonly harness: ReadonlyMap<string, string>;
  readonly token: string;
  readonly limits: IsolateLimits;
  readonly programs: IsolatePrograms;
  readonly folder: ProcessFolder;
  /** Called with each line of the structured log, in order. */
  readonly onOutput: (line: string) => void;
}

// Longest line of output worth reading: one record with every character escaped, and its frame.
const outputLineBytes = 128 * 1024;
const stderrBytes = 16 * 1024;

export class WorkerdProcess {
  readonly pid: number;
  /** Resolves once the process is reaped and its output read, with what is known about why. */
  readonly ended: Promise<Ending>;
  readonly #child: ChildProcess;
  #stderr = "";
  #verdict: Ending | undefined;

  private constructor(child: ChildProcess, pid: number, onOutput: (line: string) => void) {
    this.#child = child;
    this.pid = pid;
    const output = new LineSplitter(outputLineBytes);
    child.stdout!.on("data", (chunk: Buffer) => {
      for (const line of output.push(chunk)) onOutput(line.toString());
    });
    child.stderr!.on("data", (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-stderrBytes);
    });
    this.ended = new Promise((resolve) => {
      child.once("exit", (exitCode, signal) => {
        const ending = () => this.#verdict ?? { kind: "crash", exitCode, signal, stderr: this.#stderr };
        // `close` follows once the pipes are read; they end with the process, so the bound is for a machine that stalls.
        const late = setTimeout(() => resolve(ending()), 500);
        child.once("close", () => {
          clearTimeout(late);
          resolve(ending());
        });
      });
    });
  }

  /**
   * Resolves once workerd listens; the folder then holds nothing but sockets.
   * @throws ISOLATE_START with workerd's own sentence when the bundle does not load, or does not within the start deadline.
   */
  static async start(start: WorkerdStart): Promise<WorkerdProcess> {
    const { limits, folder } = start;
    const configFolder = join(folder.path, "config");
    await mkdir(configFolder, { mode: 0o700 });
    const files = workerdFiles({ ...start, sockets: folder.sockets });
    await Promise.all(files.map((file) => writeFile(join(configFolder, file.name), file.data)));

    const started = await WorkerdProcess.#spawn(start, configFolder);
    try {
      await started.#untilListening(limits);
    } catch (thrown) {
      started.end({ kind: "retired" });
      throw thrown;
    } finally {
      await rm(configFolder, { recursive: true, force: true });
    }
    return started;
  }

  static async #spawn({ limits, programs, onOutput }: WorkerdStart, cwd: string): Promise<WorkerdProcess> {
    const bound = [`--data=${limits.dataFloorBytes + limits.dataBudgetBytes}`, "--core=0", `--nofile=${limits.openFiles}`];
    const command = [
      programs.setpriv,
      "--no-new-privs",
      "--pdeathsig",
      "KILL",
      programs.workerd,
      "serve",
      "--control-fd=3",
      configFileName,
    ];
    const child = spawn(programs.prlimit, [...bound, ...command], {
      cwd,
      env: {},
      detached: true,
      stdio: ["ignore", "pipe", "pipe", "pipe"],
    });
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", (error) =>
        reject(codedError("UNAVAILABLE", `An isolate process could not be spawned: ${error.message}`)),
      );
    });
    const spawned = new WorkerdProcess(child, child.pid!, onOutput);
    spawned.#preferForOutOfMemoryKill();
    return spawned;
  }

  get stat(): ProcessStat | undefined {
    return readProcessStat(this.pid);
  }

  /** Kills the process group. The first reason given is the one `ended` answers. */
  end(ending: Ending): void {
    this.#verdict ??= ending;
    try {
      process.kill(-this.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }

  // Raising the score needs no privilege. The supervisor's own limits act first; this is the backstop.
  #preferForOutOfMemoryKill(): void {
    try {
      writeFileSync(`/proc/${this.pid}/oom_score_adj`, "1000");
    } catch {
      // It is gone already; the start reports why.
    }
  }

  async #untilListening(limits: IsolateLimits): Promise<void> {
    const startedAt = performance.now();
    const control = this.#child.stdio[3] as Readable;
    const look = setInterval(() => {
      const stat = this.stat;
      if (stat !== undefined && startVerdict(startedAt, { ...stat, nowMs: performance.now() }, limits) === "late")
        this.end({ kind: "loop" });
    }, limits.heartbeatMs);
    try {
      const listening = await Promise.race([listens(control), this.ended.then((ending) => ending)]);
      if (listening === undefined) return;
      throw codedError("ISOLATE_START", this.#startFailure(listening, limits));
    } finally {
      clearInterval(look);
      control.destroy();
    }
  }

  #startFailure(ending: Ending, limits: IsolateLimits): string {
    if (ending.kind === "loop")
      return `The modules did not finish loading within ${limits.startDeadlineMs} ms: code at module top level holds the processor.`;
    return startMessage(this.#stderr.split("\n")) ?? "The modules do not load, and the runtime did not say why.";
  }
}

/** Resolves at the control channel's `listen`; never otherwise, because then the process ends. */
function listens(control: Readable): Promise<undefined> {
  return new Promise((resolve) => {
    let text = "";
    control.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (text.includes('"listen"')) resolve(undefined);
    });
    control.on("error", () => undefined);
  });
}
