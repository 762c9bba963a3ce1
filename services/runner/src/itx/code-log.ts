/** What project code logs, as log records of the runner that say whose they are. */
import type { Log, LogLevel } from "@iterate-platform/service/log";
import type { IsolateHost } from "../isolate/client.js";

export interface CodeLogFields {
  readonly owner: string;
  readonly context: string;
  readonly subscription: string;
  readonly traceparent: string;
}

/** Forwards records at their own level; the supervisor has cut and counted them. */
export function recordCodeLog(report: Log, { traceparent, ...fields }: CodeLogFields): NonNullable<IsolateHost["log"]> {
  const traceId = traceparent.split("-")[1];
  const log = report.child({ ...fields, source: "code", ...(traceId === undefined ? {} : { traceId }) });
  return ({ level, message, atUs }) => log[levelOf(level)](message, { at: new Date(Math.floor(atUs / 1_000)).toISOString() });
}

function levelOf(level: string): LogLevel {
  return level === "debug" || level === "warn" || level === "error" ? level : "info";
}
