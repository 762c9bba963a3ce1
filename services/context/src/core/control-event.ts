/** From a stored or incoming payload to the control event that reducers fold: the catalog's schema decides, at both doors. */
import { eventCatalog } from "iterate/events";
import { codedError } from "iterate/lib";
import type { ControlEvent } from "./contract.js";

/** A stored event as reducers take it; `undefined` when it has not the shape its type declares: it is skipped, never thrown at. */
export function storedControlEvent(offset: number, type: string, payload: string | null): ControlEvent | undefined {
  const declaration = eventCatalog.get(type);
  if (declaration === undefined || payload === null) return undefined;
  try {
    const parsed = declaration.payload.safeParse(JSON.parse(payload));
    return parsed.success ? { offset, type, payload: parsed.data } : undefined;
  } catch {
    return undefined;
  }
}

/** The payload of an incoming control event. Throws INVALID_INPUT naming the first field that is wrong, or one nobody declared. */
export function checkedControlPayload(type: string, payload: Buffer | null): unknown {
  const value: unknown = payload === null ? undefined : JSON.parse(payload.toString("utf8"));
  const parsed = eventCatalog.get(type)!.payload.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = issue === undefined || issue.path.length === 0 ? "payload" : `payload.${issue.path.join(".")}`;
    throw codedError("INVALID_INPUT", `${type}: ${field}: ${issue?.message ?? "is not what the type declares"}`, { type, field });
  }
  const unknown = Object.keys(value as object).find((key) => !Object.hasOwn(parsed.data as object, key));
  if (unknown !== undefined)
    throw codedError("INVALID_INPUT", `${type}: payload.${unknown.slice(0, 64)} is not a field of this type`, { type });
  return parsed.data;
}
