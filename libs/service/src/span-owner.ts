/**
 * Whose work a call's span is. The platform's requests name the owner in one of few places; instrumentation knows none of them, and a
 * project finds its traces by that name.
 */
import { trace } from "@opentelemetry/api";
import type { Caller } from "./caller.js";

/** Names the owner on the active span, if the request or the code it is made for has one. Nearly free where nothing is traced. */
export function nameSpanOwner(request: unknown, caller: Caller): void {
  const span = trace.getActiveSpan();
  if (span?.isRecording() !== true) return;
  const owner = ownerIn(request) ?? caller.execution?.owner;
  if (owner !== undefined && owner !== "") span.setAttribute("owner", owner);
}

/** `owner`, or that of the `context` or `repo` the request is about. */
function ownerIn(request: unknown): string | undefined {
  if (typeof request !== "object" || request === null) return undefined;
  const { owner, context, repo } = request as { owner?: unknown; context?: { owner?: unknown }; repo?: { owner?: unknown } };
  return [owner, context?.owner, repo?.owner].find((candidate) => typeof candidate === "string");
}
