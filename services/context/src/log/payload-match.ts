/** Whether an event's payload has the top-level fields a waiter asks for. */
import { isDeepStrictEqual } from "node:util";
import { codedError } from "iterate/lib";

/** A JSON object whose fields must all be there and equal; integers beyond 2^53 are compared by their digits. */
export class PayloadMatch {
  readonly #fields: readonly (readonly [string, unknown])[];

  /** @throws CodedError INVALID_JSON when `text` is not JSON, INVALID_INPUT when it is not an object. */
  constructor(text: Uint8Array) {
    const wanted = parseExact(text);
    if (!isObject(wanted))
      throw codedError("INVALID_INPUT", "payload must be a JSON object whose fields the event's payload is to equal");
    this.#fields = Object.entries(wanted);
  }

  matches(payload: Uint8Array | undefined): boolean {
    const given = payload === undefined ? undefined : parseExact(payload);
    return (
      isObject(given) && this.#fields.every(([name, value]) => Object.hasOwn(given, name) && isDeepStrictEqual(given[name], value))
    );
  }
}

function parseExact(text: Uint8Array): unknown {
  try {
    return JSON.parse(
      Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString(),
      exact as (key: string, value: unknown) => unknown,
    );
  } catch (cause) {
    throw codedError("INVALID_JSON", `payload is not JSON: ${(cause as Error).message}`);
  }
}

function exact(_key: string, value: unknown, context: { readonly source?: string }): unknown {
  if (typeof value !== "number") return value;
  // Equal numbers may be spelt -0 and 0.
  if (Number.isSafeInteger(value)) return value + 0;
  return context.source !== undefined && /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
