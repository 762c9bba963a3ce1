/**
 * `console.*` as records tagged with their invocation. A record is one line on the process's output, written before the code goes
 * on, so it survives whatever the code does next. Evaluated before any code of the project.
 */
import { format, inspect } from "node:util";
import { scopes } from "./scope.js";

type LevelMark = "d" | "i" | "w" | "e";

// eslint-disable-next-line no-console -- what the project logs leaves by the console that this module replaces
const writeLine = console.log.bind(console);
const recordChars = 16 * 1024;

function record(level: LevelMark, text: string): void {
  const scope = scopes.getStore();
  if (scope === undefined) return writeLine(text.slice(0, recordChars));
  scope.hasLogged = true;
  if (scope.logAllowance < 0) return;
  // The record that crosses the allowance is still written: the supervisor counts it and says that the rest is cut.
  scope.logAllowance -= Math.min(text.length, recordChars);
  writeLine(`\u001e${scope.ordinal}${level}\u001f${text.slice(0, recordChars)}`);
}

/** Says that the invocation has written its last record. */
export function recordsDrained(ordinal: number): void {
  writeLine(`\u001e${ordinal}\u0004`);
}

const at =
  (level: LevelMark) =>
  (...args: unknown[]): void =>
    record(level, format(...args));

Object.assign(console, {
  debug: at("d"),
  log: at("i"),
  info: at("i"),
  warn: at("w"),
  error: at("e"),
  group: at("i"),
  groupCollapsed: at("i"),
  groupEnd: () => undefined,
  dir: (value: unknown) => record("i", inspect(value)),
  table: (value: unknown) => record("i", inspect(value)),
  trace: (...args: unknown[]) => record("d", `${format(...args)}\n${new Error("trace").stack ?? ""}`),
  assert: (condition: unknown, ...args: unknown[]) => {
    if (!condition) record("e", `Assertion failed${args.length === 0 ? "" : `: ${format(...args)}`}`);
  },
});
