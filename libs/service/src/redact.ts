/**
 * What may be written down. Fields are copied into plain JSON with secrets cut out twice: by the name of a field, and by the shape
 * of a text (bearer credentials, JWTs, URL passwords, private keys, webhook secrets), because messages quote what they failed on.
 */
import { isCodedError } from "iterate/lib";

export type LogFields = Readonly<Record<string, unknown>>;

export const redacted = "[redacted]";

/** Deepest nesting, longest text and widest list that are kept; logs are for reading. */
const maxDepth = 6;
const maxTextLength = 4_096;
const maxEntries = 64;

const secretName = /secret|passw(or)?d|token|authorization|cookie|credential|api[-_]?key|private[-_]?key|x-iterate-execution/i;
/** Names that hold a secret word but identify something. */
const harmlessName = /(id|ids|path|expires_?at)$/i;

const shapes: readonly (readonly [RegExp, string])[] = [
  [/\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g, redacted],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{6,}/gi, `$1 ${redacted}`],
  [/\b([a-z][a-z0-9+.-]*:\/\/[^\s:/?#@]*):[^\s/?#]+@/gi, `$1:${redacted}@`],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, redacted],
  [/\b(whsec|whsk|sk_live|sk_test|ghp|gho|ghs|github_pat|xox[abp])[_-][\w+/=-]{8,}/g, redacted],
];

/** Cuts secrets of a known shape out of one text. */
export function redactText(text: string): string {
  let result = text;
  for (const [shape, replacement] of shapes) result = result.replace(shape, replacement);
  return result;
}

/** A plain JSON copy of `fields` without secrets, cycles, big integers or unreadable values. */
export function redactFields(fields: LogFields): Record<string, unknown> {
  return copyEntries(fields, 0, new Set());
}

function copy(value: unknown, depth: number, above: ReadonlySet<object>): unknown {
  switch (typeof value) {
    case "string":
      return redactText(value.length > maxTextLength ? `${value.slice(0, maxTextLength)}… (${value.length} characters)` : value);
    case "bigint":
      return value.toString();
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "function":
    case "symbol":
      return `[${typeof value}]`;
    case "object":
      break;
    default:
      return value;
  }
  if (value === null) return null;
  if (above.has(value)) return "[circular]";
  if (depth >= maxDepth) return "[deep]";
  const within = new Set(above).add(value);
  if (value instanceof Error) return copyError(value, depth, within);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "[invalid date]" : value.toISOString();
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) {
    const items = value.slice(0, maxEntries).map((item) => copy(item, depth + 1, within));
    return value.length > maxEntries ? [...items, `… (${value.length} items)`] : items;
  }
  if (value instanceof Map) return copyEntries(Object.fromEntries(value) as LogFields, depth, within);
  if (value instanceof Set) return copy([...value], depth, above);
  return copyEntries(value as LogFields, depth, within);
}

function copyEntries(fields: LogFields, depth: number, above: ReadonlySet<object>): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const name of Object.keys(fields).slice(0, maxEntries)) {
    try {
      const value = fields[name];
      const isSecret = secretName.test(name) && !harmlessName.test(name) && mayHoldSecret(value);
      result[name] = isSecret ? redacted : copy(value, depth + 1, above);
    } catch {
      result[name] = "[unreadable]";
    }
  }
  return result;
}

/** Numbers under such a name count something (`promptTokens`). */
function mayHoldSecret(value: unknown): boolean {
  return typeof value === "string" || (typeof value === "object" && value !== null);
}

function copyError(error: Error, depth: number, above: ReadonlySet<object>): Record<string, unknown> {
  const code = (error as { code?: unknown }).code;
  return {
    name: error.name,
    ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
    message: copy(error.message, depth, above),
    ...(isCodedError(error) && Object.keys(error.data).length > 0 ? { data: copy(error.data, depth, above) } : {}),
    stack: copy(error.stack, depth, above),
    ...(error.cause === undefined ? {} : { cause: copy(error.cause, depth + 1, above) }),
    ...(error instanceof AggregateError ? { errors: copy(error.errors, depth + 1, above) } : {}),
  };
}
