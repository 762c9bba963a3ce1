/** The naming rule of event types: those under the platform's prefix are of its closed catalog or a test's, other names are opaque. */
import { eventCatalog, isPlatformType, platformPrefix, testTypePrefix, typeNameProblem } from "../events/index.js";
import { nearestName } from "../events/nearest.js";
import { exceedsUtf8 } from "../lib/utf8.js";
import { maxTypeBytes } from "./limits.js";

export const platformTypePrefix = platformPrefix;

/** What is wrong with `type` as a name, in words that complete "the type …", or null. */
export function eventTypeProblem(type: unknown): string | null {
  if (typeof type !== "string" || type.trim() === "") return "must be a non-blank string";
  if (exceedsUtf8(type, maxTypeBytes)) return `is longer than ${maxTypeBytes} bytes`;
  if (type.includes("\0") || !type.isWellFormed()) return "holds a NUL or a lone surrogate";
  if (!isPlatformType(type) || eventCatalog.has(type)) return null;
  const meant = nearestName(type, eventCatalog.keys());
  const suggestion = meant === null ? "" : `; did you mean ${JSON.stringify(meant)}?`;
  const problem = typeNameProblem(type);
  if (type.startsWith(testTypePrefix)) return problem;
  if (problem !== null) return problem + suggestion;
  return `is not in the platform's catalog${suggestion || `; name your own types outside of ${platformPrefix}`}`;
}
