/** Messages and stacks of workerd speak of the modules it was given; a person reads the names of the project's own. */
import { bundleFolder } from "./workerd-config.js";

const startPrefix = /^service project: (Uncaught )?/;

/** `bundle/triage.js:3:5` → `triage.js:3:5`, anywhere in the text. */
export function toProjectNames(text: string): string {
  return text.replaceAll(new RegExp(`(?<![\\w./-])${bundleFolder}`, "g"), "");
}

/** Frames of the harness and of the runtime tell a person nothing about the project. */
export function toProjectStack(stack: string): string {
  const lines = stack.split("\n").filter((line) => !/^\s*at .*\b(harness\/[a-z-]+\.js|node-internal:|workers-internal)/.test(line));
  return toProjectNames(lines.join("\n"));
}

/**
 * The sentence a failed start is reported with: workerd's own, from its structured log, in the project's names.
 * `undefined` when the lines hold none.
 */
export function startMessage(stderrLines: readonly string[]): string | undefined {
  const messages = stderrLines.map(messageOf).filter((message) => message !== undefined);
  const ofProject = messages.filter((message) => startPrefix.test(message));
  const chosen = ofProject[0] ?? messages[0];
  return chosen === undefined ? undefined : toProjectNames(chosen.replace(startPrefix, "")).slice(0, 4_000);
}

function messageOf(line: string): string | undefined {
  try {
    const record: unknown = JSON.parse(line);
    const message = typeof record === "object" && record !== null ? (record as { message?: unknown }).message : undefined;
    return typeof message === "string" ? message : undefined;
  } catch {
    return line.trim() === "" ? undefined : line;
  }
}
