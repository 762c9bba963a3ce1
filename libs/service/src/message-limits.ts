/**
 * Largest messages. A request over its method's limit is refused by name on both ends, before it is sent and before it is
 * decoded; control messages are small, appends carry a batch of 16 MiB.
 */
import { codedError } from "iterate/lib";

const MiB = 1_048_576;

export const defaultMaxRequestBytes = 4 * MiB;
export const maxAppendRequestBytes = 17 * MiB;
/** A read may answer one event of the largest size; the answering side is trusted to page. */
export const maxResponseBytes = 17 * MiB;

/** Methods whose requests carry events or file contents. */
const larger: Readonly<Record<string, number>> = {
  "/iterate.context.v1.ContextService/Append": maxAppendRequestBytes,
  "/iterate.context.v1.ContextService/AppendStream": maxAppendRequestBytes,
  "/iterate.context.v1.SecretService/Verify": maxAppendRequestBytes,
  "/iterate.runner.v1.IsolateService/Invoke": maxAppendRequestBytes,
};

/** Limits by method path that replace the built-in ones, in bytes. */
export type RequestLimits = Readonly<Record<string, number>>;

export function maxRequestBytes(path: string, overrides: RequestLimits = {}): number {
  return overrides[path] ?? larger[path] ?? defaultMaxRequestBytes;
}

/** Throws BATCH_TOO_LARGE when a request of `bytes` may not be sent to `path`. Not retryable. */
export function checkRequestSize(path: string, bytes: number, limit: number): void {
  if (bytes > limit)
    throw codedError("BATCH_TOO_LARGE", `${path}: a request of ${bytes} bytes is over the limit of ${limit}; split it`, {
      bytes,
      limit,
    });
}

/** Throws INTERNAL when a response is over what clients take: the method failed to page. */
export function checkResponseSize(path: string, bytes: number): void {
  if (bytes > maxResponseBytes)
    throw codedError("INTERNAL", `${path}: a response of ${bytes} bytes is over the limit of ${maxResponseBytes}`, {
      bytes,
      limit: maxResponseBytes,
    });
}
