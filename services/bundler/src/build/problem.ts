/** Turns problems in a project's sources into the one error their author sees. */
import { codedError, type CodedError } from "iterate/lib";
import type { BuildProblem } from "./contract.js";

/** Problems named in one message; the rest are counted. */
const maxShown = 20;

/** Longest message in characters; the fact that records it takes 8,000. */
const maxMessageLength = 4000;

/** BUILD_FAILED, one line per problem as `file:line:column: what`, the same list in `data.problems`. Not retryable. */
export function buildFailed(problems: readonly BuildProblem[]): CodedError {
  const shown = problems.slice(0, maxShown);
  const lines = shown.map(problemLine);
  if (problems.length > shown.length) lines.push(`… and ${problems.length - shown.length} more`);
  const message = lines.join("\n");
  return codedError("BUILD_FAILED", message.length > maxMessageLength ? `${message.slice(0, maxMessageLength)}…` : message, {
    problems: shown.map((problem) => ({ ...problem, message: problem.message.slice(0, 1000) })),
  });
}

function problemLine({ file, line, column, message }: BuildProblem): string {
  const place = [file, line, line === undefined ? undefined : column].filter((part) => part !== undefined).join(":");
  return `${place}: ${message}`;
}
