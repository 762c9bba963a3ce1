/** Answers one host call of an isolate: its arguments are hostile text, its answer is JSON or a coded failure. */
import type { HostCall, HostReply } from "@iterate-platform/proto/iterate/runner/v1/isolate";
import { toStatus } from "@iterate-platform/service/status";
import { codedError, isCodedError } from "iterate/lib";
import { isolateLimits } from "./limits.js";
import type { LogRecord } from "./log-record.js";

/** What the platform does for an invocation. */
export interface IsolateHost {
  /**
   * Answers a call of the code with a JSON value, or throws a CodedError, which the code sees. Method, path and arguments are
   * hostile: check them. The signal aborts when the invocation is over and nobody waits for the answer.
   */
  hostCall(call: IsolateHostCall, signal: AbortSignal): Promise<unknown>;
  log?(record: Omit<LogRecord, "level"> & { readonly level: string }): void;
}

export interface IsolateHostCall {
  readonly method: string;
  /** As the code spelled it. */
  readonly path: string;
  readonly args: readonly unknown[];
}

/** Never rejects; a failure that carries no code becomes INTERNAL without its text. */
export async function hostReply(
  host: IsolateHost,
  { callId, method, path, args }: HostCall,
  signal: AbortSignal,
): Promise<HostReply> {
  try {
    const value = JSON.stringify(await host.hostCall({ method, path, args: argumentList(args) }, signal)) ?? "null";
    const bytes = Buffer.from(value);
    if (bytes.byteLength > isolateLimits.hostCallBytes)
      throw codedError(
        "BATCH_TOO_LARGE",
        `The answer of ${method} has ${bytes.byteLength} bytes; at most ${isolateLimits.hostCallBytes} are given. Ask for less.`,
      );
    return { callId, outcome: { $case: "value", value: bytes } };
  } catch (thrown) {
    const error = isCodedError(thrown)
      ? thrown
      : codedError("INTERNAL", `${method.slice(0, 100)} failed for a reason of the platform.`);
    return { callId, outcome: { $case: "error", value: toStatus(error) } };
  }
}

function argumentList(text: Uint8Array): readonly unknown[] {
  let args: unknown;
  try {
    args = JSON.parse(Buffer.from(text).toString());
  } catch {
    args = undefined;
  }
  if (!Array.isArray(args)) throw codedError("INVALID_INPUT", "The arguments of a host call are a JSON list.");
  return args;
}
