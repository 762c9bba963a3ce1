/** JSON that a person types, refused where it would not arrive as typed. */
import { UsageError } from "./failure.js";

/** Names the session protocol drops from objects: those every JavaScript object has. */
const isDropped = (key: string): boolean => key in Object.prototype || key === "toJSON";

/** Throws UsageError, naming `what`, for text that is not JSON or holds a key that cannot be carried. */
export function parseJson(what: string, text: string): unknown {
  try {
    return JSON.parse(text, (key, value: unknown) => {
      if (isDropped(key))
        throw new UsageError(`${what} holds the key ${JSON.stringify(key)}, which the session protocol cannot carry; rename it`);
      return value;
    });
  } catch (thrown) {
    if (thrown instanceof UsageError) throw thrown;
    throw new UsageError(`${what} is not JSON: ${(thrown as Error).message}; in a shell quote it, for example '{"n":1}'`);
  }
}

/** A whole number of at least `least`. */
export function parseCount(what: string, text: string, least: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least)
    throw new UsageError(`${what} must be a whole number of at least ${least}, not ${JSON.stringify(text)}`);
  return value;
}
