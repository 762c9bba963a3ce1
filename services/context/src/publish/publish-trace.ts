/**
 * The end of an append's trace: which message told the other processes of it. A message carries the commits of many appends, so each
 * traced append gets a span of its own in its own trace; what is not traced costs nothing.
 */
import { withRemoteParent, withSpan } from "@iterate-platform/service/tracing";
import type { CommittedContext } from "../log/contract.js";

/** Appends of one message that get a span; a burst is not worth more of its time. */
export const maxTracedAppends = 256;

/** The traced appends of what waits for one message: whose they are, by traceparent. */
export class TracedAppends {
  #owners = new Map<string, string>();

  note({ head, rows }: CommittedContext): void {
    for (const { event } of rows) {
      const { traceparent } = event;
      if (traceparent !== null && this.#owners.size < maxTracedAppends) this.#owners.set(traceparent, head.address.owner);
    }
  }

  /** Records in each trace that the message on `subject` was published, and forgets them. */
  published(subject: string): void {
    if (this.#owners.size === 0) return;
    const owners = this.#owners;
    this.#owners = new Map();
    for (const [traceparent, owner] of owners) {
      const attributes = {
        owner,
        "messaging.system": "nats",
        "messaging.operation.name": "publish",
        "messaging.destination.name": subject,
      };
      withRemoteParent(traceparent, () => withSpan(`publish ${subject}`, { kind: "producer", attributes }, () => undefined));
    }
  }
}
