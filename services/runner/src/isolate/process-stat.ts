/** CPU time and resident memory of a process, from one line of `/proc/<pid>/stat`. */
import { readFileSync } from "node:fs";

export interface ProcessStat {
  /** User and system time since the process began. */
  readonly cpuMs: number;
  readonly residentBytes: number;
}

// Linux reports clock ticks of 1/100 s to user space on every architecture, and pages of 4 KiB on x86-64 and most arm64 kernels.
const tickMs = 10;
const pageBytes = 4096;

/** `undefined` for text that is no stat line. The command name may hold spaces and parentheses: fields count from its last `)`. */
export function parseProcessStat(line: string): ProcessStat | undefined {
  const rest = line.slice(line.lastIndexOf(")") + 2).split(" ");
  const [userTicks, systemTicks, pages] = [rest[11], rest[12], rest[21]].map(Number);
  if (![userTicks, systemTicks, pages].every(Number.isSafeInteger)) return undefined;
  return { cpuMs: (userTicks! + systemTicks!) * tickMs, residentBytes: pages! * pageBytes };
}

/** `undefined` once the process is gone. A read of procfs never waits for a disk. */
export function readProcessStat(pid: number): ProcessStat | undefined {
  try {
    return parseProcessStat(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return undefined;
  }
}
