#!/usr/bin/env node
/** `iterate`: wires the command line to this process. */
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { runCommandLine } from "./program.js";

// The file lies two folders below the package, as source and as build.
const { version } = JSON.parse(readFileSync(fileURLToPath(new URL("../../package.json", import.meta.url)), "utf8")) as {
  readonly version: string;
};

// A reader that has seen enough, as in `iterate events read | head`, is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

process.exitCode = await runCommandLine(process.argv.slice(2), version, {
  env: process.env,
  cwd: process.cwd(),
  print: (output) => new Promise((resolve) => (process.stdout.write(output) ? resolve() : process.stdout.once("drain", resolve))),
  note: (output) => void process.stderr.write(output),
  readInput: () => text(process.stdin),
  interruption: () => {
    const controller = new AbortController();
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => controller.abort());
    return controller.signal;
  },
  nowMs: Date.now,
  pause: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
});
