/**
 * `console.*` of project code as structured records. The harness writes each record as one line of workerd's structured log,
 * tagged with the ordinal of its invocation; a line is written before the code goes on, so a record survives the kill that follows
 * it. The lines come out of an isolate: a forged tag can only name another invocation of the same bundle.
 */
import type { IsolateLimits } from "./limits.js";

export type LogLevel = "debug" | "info" | "warn" | "error";

export interface LogRecord {
  readonly level: LogLevel;
  readonly message: string;
  /** Microseconds since the Unix epoch. */
  readonly atUs: number;
}

/** A line of the process's output, taken apart. */
export type OutputLine =
  | { readonly kind: "record"; /** Absent: logged outside an invocation. */ readonly ordinal?: number; readonly record: LogRecord }
  /** The invocation has written its last record. */
  | { readonly kind: "drained"; readonly ordinal: number };

// The harness spells the same marks; see harness/console.ts.
const recordMark = /^\u001e(\d{1,15})([deiw])\u001f/;
const drainedMark = /^\u001e(\d{1,15})\u0004$/;
const levels: Record<string, LogLevel> = { d: "debug", i: "info", w: "warn", e: "error" };
const runtimeLevels: Record<string, LogLevel> = { debug: "debug", log: "info", info: "info", warn: "warn", error: "error" };

/** `undefined` for a line that is no record of the structured log. `nowUs` stands in for a time that is absent or absurd. */
export function parseOutputLine(line: string, nowUs: number): OutputLine | undefined {
  const raw = parseObject(line);
  if (raw === undefined || typeof raw.message !== "string") return undefined;
  const drained = drainedMark.exec(raw.message);
  if (drained !== null) return { kind: "drained", ordinal: Number(drained[1]) };
  const atUs = timeUs(raw.timestamp, nowUs);
  const mark = recordMark.exec(raw.message);
  if (mark === null)
    return { kind: "record", record: { level: runtimeLevels[String(raw.level)] ?? "info", message: raw.message, atUs } };
  const message = raw.message.slice(mark[0].length);
  return { kind: "record", ordinal: Number(mark[1]), record: { level: levels[mark[2]!]!, message, atUs } };
}

function parseObject(line: string): { message?: unknown; timestamp?: unknown; level?: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

const dayUs = 86_400_000_000;

function timeUs(timestampMs: unknown, nowUs: number): number {
  const us = Number(timestampMs) * 1_000;
  return Number.isSafeInteger(us) && Math.abs(us - nowUs) < dayUs ? us : nowUs;
}

/** Cuts what one invocation logs: each record to its size, all of them to a total, then says once that the rest is gone. */
export class LogBudget {
  readonly #limits: Pick<IsolateLimits, "logBytes" | "logRecordBytes">;
  #usedBytes = 0;
  #isSpent = false;

  constructor(limits: Pick<IsolateLimits, "logBytes" | "logRecordBytes">) {
    this.#limits = limits;
  }

  /** The record to pass on, or `undefined` when it falls to the cap. */
  take(record: LogRecord): LogRecord | undefined {
    if (this.#isSpent) return undefined;
    const message = cutText(record.message, this.#limits.logRecordBytes);
    this.#usedBytes += Buffer.byteLength(message);
    if (this.#usedBytes <= this.#limits.logBytes) return { ...record, message };
    this.#isSpent = true;
    return {
      level: "warn",
      atUs: record.atUs,
      message: `truncated: this invocation logged more than ${this.#limits.logBytes} bytes; the rest is dropped`,
    };
  }
}

/** At most `maxBytes` of UTF-8, cut at a character and marked with an ellipsis. */
export function cutText(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text);
  if (bytes.byteLength <= maxBytes) return text;
  const mark = "…";
  let end = maxBytes - Buffer.byteLength(mark);
  while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end) + mark;
}
