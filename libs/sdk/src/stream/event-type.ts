/** The naming rule of event types: the platform's own prefix has exactly two kebab-case segments, other names are opaque. */
import { exceedsUtf8 } from "../lib/utf8.js";
import { maxTypeBytes } from "./limits.js";

export const platformTypePrefix = "events.iterate.com/";

const platformType = /^events\.iterate\.com\/[a-z][a-z0-9]*(-[a-z0-9]+)*\/[a-z][a-z0-9]*(-[a-z0-9]+)*$/;

/** What is wrong with `type` as a name, in words that complete "the type …", or null. */
export function eventTypeProblem(type: unknown): string | null {
  if (typeof type !== "string" || type.trim() === "") return "must be a non-blank string";
  if (exceedsUtf8(type, maxTypeBytes)) return `is longer than ${maxTypeBytes} bytes`;
  if (type.includes("\0") || !type.isWellFormed()) return "holds a NUL or a lone surrogate";
  if (type.startsWith(platformTypePrefix) && !platformType.test(type)) {
    return `must read ${platformTypePrefix}<namespace>/<event>, both in lower-case kebab-case`;
  }
  return null;
}
