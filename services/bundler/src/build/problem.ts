/** Turns problems in a project's sources into the one error their author sees. */
import { codedError, type CodedError } from "iterate/lib";
import type { BuildProblem } from "./contract.js";

/** Longest message in UTF-8 bytes: it crosses gRPC whole, and no line of it is cut in the middle by a transport. */
const maxMessageBytes = 1100;

/** Longest line in characters; a specifier may be as long as a file. */
const maxLineLength = 600;

/** Problems in `data`; the message names more. */
const maxListed = 3;

/** BUILD_FAILED, one line per problem as `file:line:column: what`, the first of them in `data.problems`. Not retryable. */
export function buildFailed(problems: readonly BuildProblem[]): CodedError {
  const lines: string[] = [];
  let bytes = 0;
  for (const problem of problems) {
    const line = clip(problemLine(problem), maxLineLength);
    bytes += Buffer.byteLength(line) + 1;
    if (bytes > maxMessageBytes && lines.length > 0) break;
    lines.push(line);
  }
  if (lines.length < problems.length) lines.push(`… and ${problems.length - lines.length} more`);
  return codedError("BUILD_FAILED", lines.join("\n"), {
    problems: problems.slice(0, maxListed).map((problem) => ({ ...problem, message: clip(problem.message, 200) })),
  });
}

const clip = (text: string, length: number): string => (text.length > length ? `${text.slice(0, length)}…` : text);

function problemLine({ file, line, column, message }: BuildProblem): string {
  const place = [file, line, line === undefined ? undefined : column].filter((part) => part !== undefined).join(":");
  return `${place}: ${message}`;
}
