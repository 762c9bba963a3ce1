/** Tells the context service of a ref update: one event in the repository's own context. */
import { ContextServiceClient } from "@iterate-platform/proto/iterate/context/v1/context";
import { createClient } from "@iterate-platform/service/grpc-client";
import { uuidv7 } from "@iterate-platform/service/ids";
import { linksFrom, withNewRoot } from "@iterate-platform/service/tracing";
import type { Trust } from "@iterate-platform/service/trust";
import { repo } from "iterate/events";
import type { RepoFact } from "./outbox.js";

export interface FactLog {
  /** Resolves once the fact is committed; repeating it is safe by its key. Rejects with the service's CodedError. */
  readonly append: (fact: RepoFact, signal: AbortSignal) => Promise<void>;
  readonly close: () => void;
}

const deadlineMs = 10_000;

export function connectFactLog(url: string, trust: Trust): FactLog {
  const client = createClient(ContextServiceClient, url, { trust, audience: "context" });
  const append = async ({ owner, path, payload, idempotencyKey }: RepoFact, signal: AbortSignal): Promise<void> => {
    const event = {
      type: repo.commitCompleted.type,
      payload: Buffer.from(payload),
      metadata: undefined,
      idempotencyKey,
      expectedOffset: undefined,
      processor: undefined,
      ephemeral: false,
      formatVersion: 0,
    };
    await client.append({ context: { owner, path }, appendId: uuidv7(), events: [event] }, { signal, deadlineMs });
  };
  return {
    // A push may be told long after it was made: its own trace, linked to the push's.
    append: (fact, signal) =>
      withNewRoot(
        "repo.tell",
        {
          kind: "producer",
          links: linksFrom(fact.traceparent === null ? [] : [fact.traceparent]),
          attributes: { owner: fact.owner },
        },
        () => append(fact, signal),
      ),
    close: () => client.close(),
  };
}
