/** What JetStream answers to a published message, read raw: the client library's own publish costs several times as much. */
import type { Msg } from "@nats-io/transport-node";

export type PublishAck = { readonly kind: "stored" } | { readonly kind: "unstored"; readonly reason: string };

/** The body and the status of an answer. */
export function ackOf({ data, headers }: Pick<Msg, "data" | "headers">): PublishAck {
  // The server's own answer when nobody listens: an empty message with a status header.
  if (headers?.code === 503) return { kind: "unstored", reason: "no stream takes the subject" };
  try {
    const answer = JSON.parse(Buffer.from(data).toString()) as { stream?: string; error?: { description?: string } };
    if (answer.stream !== undefined && answer.error === undefined) return { kind: "stored" };
    return { kind: "unstored", reason: answer.error?.description ?? "the answer names no stream" };
  } catch {
    return { kind: "unstored", reason: "the answer is not JSON" };
  }
}
