/** Context paths: absolute, POSIX-like, without empty, `.` or `..` segments. The root is `/`. */
import { codedError } from "./coded-error.js";

/** Longest path in UTF-8 bytes; a column and an index key depend on it. */
export const maxContextPathBytes = 1024;

const segment = /^[^\/\u0000-\u001f\u007f]+$/u;

/** Throws INVALID_CONTEXT unless `path` is a normal absolute path of at most 1,024 bytes. Not retryable. */
export function assertContextPath(path: string): void {
  const problem = contextPathProblem(path);
  if (problem !== null)
    throw codedError("INVALID_CONTEXT", `context path ${JSON.stringify(path.slice(0, 120))} ${problem}`, {
      path: path.slice(0, 120),
    });
}

function contextPathProblem(path: string): string | null {
  if (!path.startsWith("/")) return "must start with '/'";
  if (!path.isWellFormed()) return "holds a lone surrogate";
  if (new TextEncoder().encode(path).length > maxContextPathBytes) return `is longer than ${maxContextPathBytes} bytes`;
  if (path === "/") return null;
  for (const part of path.slice(1).split("/")) {
    if (part === "" || part === "." || part === "..") return `holds the segment ${JSON.stringify(part)}; write the resolved path`;
    if (!segment.test(part)) return "holds a control character";
  }
  return null;
}

/**
 * Resolves `path` against `base` (an absolute path) as `cd` does: `..` never leaves the root, `.` and empty segments vanish.
 * Throws INVALID_CONTEXT when the result is not a valid path.
 */
export function resolveContextPath(base: string, path: string): string {
  const parts: string[] = [];
  for (const part of (path.startsWith("/") ? path : `${base}/${path}`).split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") parts.pop();
    else parts.push(part);
  }
  const resolved = `/${parts.join("/")}`;
  assertContextPath(resolved);
  return resolved;
}
