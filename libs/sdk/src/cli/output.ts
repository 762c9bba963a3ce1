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

export function eventLine({ offset, createdAt, type, payload }: StreamEvent): string {
  const body = payload === undefined ? "" : printable(JSON.stringify(payload));
  const shown = body.length > maxShownChars ? `${body.slice(0, maxShownChars)}…` : body;
  return `${String(offset).padStart(6)}  ${createdAt}  ${printable(type)}${shown === "" ? "" : `  ${shown}`}\n`;
}

export function jsonLine(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/** One log record on a line. What says where it belongs is left out: the reader asked for it. */
export function logLine({ at, severity, service, body, attributes }: LogRecord): string {
  const rest = Object.entries(attributes).filter(([name]) => name !== "owner");
  const fields = rest.map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(" ");
  return `${at}  ${severity.padEnd(5)}  ${printable(`${service}  ${body}${fields === "" ? "" : `  ${fields}`}`)}\n`;
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
