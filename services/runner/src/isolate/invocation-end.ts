/** The end of an invocation as the runner throws it. */
import type { InvokeEnd } from "@iterate-platform/proto/iterate/runner/v1/isolate";
import { fromStatus } from "@iterate-platform/service/status";
import { CodedError } from "iterate/lib";

/**
 * `undefined` when it ended well. Else the error with `data.killed` (the process ended by, or for, this invocation) and, when code of
 * the project threw, `data.stack` in the project's module names.
 */
export function endError({ error, stack, killed }: InvokeEnd): CodedError | undefined {
  if (error === undefined) return undefined;
  const { code, message, data, retryAfterMs } = fromStatus(error, "runner-isolate");
  return new CodedError(code, message, {
    data: { ...data, killed, ...(stack === "" ? {} : { stack }) },
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}
