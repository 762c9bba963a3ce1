/** A client of AppendStream that sends the appends of one event-loop turn in one message, or each in its own. */
import {
  ContextServiceClient,
  type AppendOutcome,
  type AppendRequest,
  type ContextServiceService,
} from "@iterate-platform/proto/iterate/context/v1/context";
import type { ServiceClient } from "@iterate-platform/service/grpc-client";
import { fromStatus } from "@iterate-platform/service/status";

export type Client = ServiceClient<typeof ContextServiceService>;

/** Appends of one message. */
const maxPerMessage = 512;

export class StreamAppender {
  readonly #call: ReturnType<Client["appendStream"]>;
  readonly #isCoalescing: boolean;
  readonly #waiting: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  #first = 0;
  #queued: AppendRequest[] = [];

  constructor(client: Client, isCoalescing: boolean) {
    this.#call = client.appendStream();
    this.#isCoalescing = isCoalescing;
    void this.#receive();
  }

  append(request: AppendRequest): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      if (!this.#isCoalescing) return void this.#send([request]);
      if (this.#queued.length === 0) setImmediate(() => this.#flush());
      this.#queued.push(request);
    });
  }

  end(): void {
    this.#call.end();
  }

  #flush(): void {
    const queued = this.#queued;
    this.#queued = [];
    for (let from = 0; from < queued.length; from += maxPerMessage) this.#send(queued.slice(from, from + maxPerMessage));
  }

  #send(appends: readonly AppendRequest[]): void {
    void this.#call.send({ items: appends.map((append) => ({ append, execution: "", traceparent: "" })), stopOnError: false });
  }

  async #receive(): Promise<void> {
    try {
      for await (const { outcomes } of this.#call.responses) for (const outcome of outcomes) this.#settle(outcome);
    } catch (error) {
      // Once everything is answered nobody minds how the call ends.
      for (const { reject } of this.#waiting.slice(this.#first)) reject(error);
    }
  }

  #settle({ outcome }: AppendOutcome): void {
    const { resolve, reject } = this.#waiting[this.#first]!;
    this.#first += 1;
    if (this.#first > 4_096) {
      this.#waiting.splice(0, this.#first);
      this.#first = 0;
    }
    if (outcome?.$case === "error") reject(fromStatus(outcome.value, "context"));
    else resolve();
  }
}

export { ContextServiceClient };
