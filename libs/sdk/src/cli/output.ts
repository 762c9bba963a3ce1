/** Text for a terminal. Whatever an event holds, it cannot move the cursor or reorder a line. */
import type { LogRecord } from "../api/telemetry.js";
import type { StreamEvent } from "../stream/event.js";

/** Longest payload shown on a line for a person; `--json` shows all. */
const maxShownChars = 160;

// Control characters, line separators and those that change the direction of text.
const unprintable = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

export function printable(text: string): string {
  return text.replace(unprintable, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** An event on a line. What it says failed comes first and whole, in lines of its own where it has several; `hint` follows below. */
export function eventLine({ offset, createdAt, type, payload, ephemeral }: StreamEvent, hint?: string): string {
  const { failure, rest } = failureIn(payload);
  const [first, ...more] = failure === null ? [] : linesOf(failure);
  const body = rest === undefined ? "" : printable(JSON.stringify(rest));
  const shown = body.length > maxShownChars ? `${body.slice(0, maxShownChars)}…` : body;
  const kind = ephemeral === true ? "(ephemeral)" : "";
  const words = [String(offset).padStart(6), createdAt, printable(type), kind, first ?? "", shown].filter((word) => word !== "");
  return `${words.join("  ")}\n${below([...more, ...(hint === undefined ? [] : [printable(hint)])])}`;
}

export function jsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/** One log record, its stack and other text of several lines below it. What says where it belongs is left out: the reader asked for it. */
export function logLine({ at, severity, service, body, attributes }: LogRecord): string {
  const [first = "", ...more] = linesOf(body);
  const fields = Object.entries(attributes)
    .filter(([name]) => name !== "owner")
    .map(([name, value]) => linesOf(`${name}=${typeof value === "string" ? value : JSON.stringify(value)}`));
  const short = fields.filter((lines) => lines.length === 1).flat();
  const long = fields.filter((lines) => lines.length > 1).flat();
  const shown = short.length === 0 ? "" : `  ${short.join(" ")}`;
  return `${at}  ${severity.padEnd(5)}  ${printable(service)}  ${first}${shown}\n${below([...more, ...long])}`;
}

/** Rows in columns under a heading. */
export function table(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [heading, ...rows].map((row) => row.map(printable));
  const widths = heading.map((_, column) => Math.max(...all.map((row) => (row[column] ?? "").length)));
  return all
    .map(
      (row) => `${row.map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join("  ")}\n`,
    )
    .join("");
}

/** Printable lines; a line break at the end begins none. */
function linesOf(text: string): string[] {
  return text
    .replace(/(?:\r?\n)+$/, "")
    .split(/\r?\n/)
    .map(printable);
}

/** Lines that belong to the one above, marked so that none can pass for one of its kind. */
function below(lines: readonly string[]): string {
  return lines.map((line) => `        | ${line}\n`).join("");
}

/** The failure that a payload tells of, and the rest of it. */
function failureIn(payload: unknown): { readonly failure: string | null; readonly rest: unknown } {
  const none = { failure: null, rest: payload };
  if (typeof payload !== "object" || payload === null || !("error" in payload)) return none;
  const { error, ...rest } = payload;
  if (typeof error !== "object" || error === null) return none;
  const { code, message } = error as { code?: unknown; message?: unknown };
  return typeof code === "string" && typeof message === "string" ? { failure: `${code}: ${message}`, rest } : none;
}
