/** Hints by plain subscriptions on `ctx.<bucket>`: no consumer, no acknowledgement, no redelivery. */
import { CommitBatch } from "@iterate-platform/proto/iterate/context/v1/feed";
import type { Log } from "@iterate-platform/service/log";
import type { Broker } from "@iterate-platform/service/nats";
import type { Hints } from "./intake.js";

export class BrokerHints implements Hints {
  readonly #broker: Broker;
  readonly #report: Log;

  constructor(broker: Broker, report: Log) {
    this.#broker = broker;
    this.#report = report;
  }

  hear(bucket: number, receive: (batch: CommitBatch) => void): () => void {
    const subscription = this.#broker.subscribe(`ctx.${bucket}`, ({ data }) => {
      let batch: CommitBatch;
      try {
        batch = CommitBatch.decode(data);
      } catch (error) {
        this.#report.warn("a hint is not a batch of commits", { bucket, error });
        return;
      }
      receive(batch);
    });
    return () => subscription.close();
  }

  onGap(listener: () => void): () => void {
    return this.#broker.onReconnect(listener);
  }
}
