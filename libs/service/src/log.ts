/**
 * Logs: one JSON object per line on standard error, with the trace it belongs to, and the same record to OpenTelemetry when a
 * provider is registered. Secrets are cut out by field name and by shape before a line exists; a line is never longer than
 * 16 KiB and logging never throws.
 */
import { context, trace } from "@opentelemetry/api";
import { logs, SeverityNumber } from "@opentelemetry/api-logs";
import { redactFields, type LogFields } from "./redact.js";

export type LogLevel = "debug" | "info" | "warn" | "error";

export const logLevels = ["debug", "info", "warn", "error"] as const satisfies readonly LogLevel[];

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  /** Give the thrown value as `error`; its code, message, stack and causes are kept. */
  error(message: string, fields?: LogFields): void;
  /** A log whose every line also carries `fields`, e.g. `{owner}`. */
  child(fields: LogFields): Log;
}

export interface LogOptions {
  /** Lines below this level are dropped; `LOG_LEVEL` or `info` by default. */
  readonly level?: LogLevel;
  /** Takes one line with its newline; standard error by default. */
  readonly write?: (line: string) => void;
  readonly nowMs?: () => number;
}

/** Longest line in characters; a longer record loses its fields, never its message. */
export const maxLineLength = 16_384;

const severity: Record<LogLevel, SeverityNumber> = {
  debug: SeverityNumber.DEBUG,
  info: SeverityNumber.INFO,
  warn: SeverityNumber.WARN,
  error: SeverityNumber.ERROR,
};

export function createLog(service: string, options: LogOptions = {}): Log {
  const threshold = logLevels.indexOf(options.level ?? levelFrom(process.env["LOG_LEVEL"]));
  const write = options.write ?? ((line) => void process.stderr.write(line));
  const nowMs = options.nowMs ?? Date.now;

  const emit = (level: LogLevel, bound: LogFields, message: string, fields: LogFields | undefined): void => {
    if (logLevels.indexOf(level) < threshold) return;
    const at = nowMs();
    const span = trace.getSpanContext(context.active());
    const redacted = redactFields({ ...bound, ...fields });
    const text = redactFields({ message })["message"] as string;
    write(
      lineOf(
        {
          time: new Date(at).toISOString(),
          level,
          service,
          message: text,
          ...(span && { trace_id: span.traceId, span_id: span.spanId }),
        },
        redacted,
      ),
    );
    logs.getLogger(service).emit({
      timestamp: at,
      severityNumber: severity[level],
      severityText: level,
      body: text,
      attributes: attributesOf(redacted),
      context: context.active(),
    });
  };

  const bind = (bound: LogFields): Log => ({
    debug: (message, fields) => emit("debug", bound, message, fields),
    info: (message, fields) => emit("info", bound, message, fields),
    warn: (message, fields) => emit("warn", bound, message, fields),
    error: (message, fields) => emit("error", bound, message, fields),
    child: (fields) => bind({ ...bound, ...fields }),
  });
  return bind({});
}

function levelFrom(text: string | undefined): LogLevel {
  return logLevels.find((level) => level === text) ?? "info";
}

/** Fixed members come last in precedence: a field may not replace `level` or `trace_id`. */
function lineOf(fixed: Record<string, unknown>, fields: Record<string, unknown>): string {
  const line = JSON.stringify({ ...fixed, ...fields, ...fixed });
  if (line.length < maxLineLength) return `${line}\n`;
  const message = String(fixed["message"]).slice(0, maxLineLength / 4);
  return `${JSON.stringify({ ...fixed, message, truncated: line.length })}\n`;
}

/** OpenTelemetry attributes are flat: nested fields travel as JSON text. */
function attributesOf(fields: Record<string, unknown>): Record<string, string | number | boolean> {
  const attributes: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === null) continue;
    attributes[name] =
      typeof value === "string" || typeof value === "number" || typeof value === "boolean"
        ? value
        : JSON.stringify(value).slice(0, maxLineLength);
  }
  return attributes;
}
