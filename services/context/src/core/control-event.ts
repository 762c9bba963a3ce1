/** From a stored or incoming payload to the control event that reducers fold: the catalog's schema decides, at both doors. */
import { newestFormat, type EventTypeDeclaration } from "iterate/events";
import { codedError, isErrorCode, type ErrorCode } from "iterate/lib";
import type { z } from "zod";
import type { ControlEvent } from "./contract.js";
import type { Vocabulary } from "./vocabulary.js";

/** A stored control event. */
export interface StoredControlEvent {
  readonly offset: number;
  readonly type: string;
  readonly formatVersion: number;
  /** JSON text. */
  readonly payload: string | null;
}

/**
 * A stored event as reducers take it, in the newest format; `undefined` when it has not the shape its type declares: it is skipped,
 * never thrown at.
 *
 * @throws CodedError UPGRADE_REQUIRED, retryable: its format is newer than this release knows, so that no state folded here is right.
 */
export function storedControlEvent(vocabulary: Vocabulary, stored: StoredControlEvent): ControlEvent | undefined {
  const { offset, type, formatVersion, payload } = stored;
  const declaration = vocabulary.declarationOf(type);
  if (declaration === undefined || payload === null) return undefined;
  if (formatVersion > declaration.formatVersion) newestFormat(declaration, { offset, formatVersion, payload });
  try {
    const parsed = declaration.payload.safeParse(
      newestFormat(declaration, { offset, formatVersion, payload: JSON.parse(payload) }),
    );
    return parsed.success ? { offset, type, payload: parsed.data } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The payload of an incoming event in the newest format. Throws INVALID_INPUT, or the code of the field itself, naming the first field
 * that is wrong, or one nobody declared.
 */
export function checkedPayload(declaration: EventTypeDeclaration, formatVersion: number, payload: Buffer | null): unknown {
  const { type, earlier } = declaration;
  const value: unknown = payload === null ? undefined : JSON.parse(payload.toString("utf8"));
  const schema: z.ZodType = earlier[formatVersion - 1]?.payload ?? declaration.payload;
  const parsed = schema.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = issue === undefined || issue.path.length === 0 ? "payload" : `payload.${issue.path.join(".")}`;
    throw codedError(codeOf(issue), `${type}: ${field}: ${issue?.message ?? "is not what the type declares"}`, { type, field });
  }
  const unknown = undeclaredField(value, parsed.data, "payload");
  if (unknown !== null)
    throw codedError("INVALID_INPUT", `${type}: ${unknown.slice(0, 256)} is not a field of this type`, { type });
  return newestFormat(declaration, { formatVersion, payload: parsed.data });
}

/** A field that knows its refusal by a code of its own says so in the issue. */
function codeOf(issue: z.core.$ZodIssue | undefined): ErrorCode {
  const code: unknown = issue?.code === "custom" ? issue.params?.["code"] : undefined;
  return isErrorCode(code) ? code : "INVALID_INPUT";
}

/** The path of the first field of `value` that its schema let fall, at any depth; `null` when it took all of them. */
function undeclaredField(value: unknown, parsed: unknown, path: string): string | null {
  if (typeof value !== "object" || value === null || typeof parsed !== "object" || parsed === null) return null;
  for (const [key, field] of Object.entries(value)) {
    const at = Array.isArray(value) ? `${path}[${key}]` : `${path}.${key.slice(0, 64)}`;
    if (!Object.hasOwn(parsed, key)) return at;
    const unknown = undeclaredField(field, (parsed as Record<string, unknown>)[key], at);
    if (unknown !== null) return unknown;
  }
  return null;
}
