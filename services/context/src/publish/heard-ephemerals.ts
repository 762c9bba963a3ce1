/**
 * Hears the ephemeral events that other processes took, for the contexts somebody listens to: a plain subscription for each partition
 * that holds one. Messages are hints from outside: what is not a message of its subject is dropped and counted.
 */
import type { Msg } from "@nats-io/transport-node";
import { LiveBatch, type LiveRun } from "@iterate-platform/proto/iterate/context/v1/live";
import { partitionOf } from "@iterate-platform/service/ids";
import type { BrokerSubscription } from "@iterate-platform/service/nats";
import type { ContextAddress } from "../log/contract.js";
import { envelopeBytes } from "./committed-events.js";
import type { EphemeralHint } from "./contract.js";
import type { NewsBroker } from "./news-broker.js";

export interface HeardEphemeralsParts {
  readonly broker: NewsBroker;
  /** Replies to messages of this process begin with it: it told its own listeners already. */
  readonly inbox: string;
  readonly isListenedTo: (address: ContextAddress) => boolean;
  readonly onHint: (hint: EphemeralHint) => void;
}

interface Listened {
  readonly subscription: BrokerSubscription;
  contexts: number;
}

export class HeardEphemerals {
  readonly #parts: HeardEphemeralsParts;
  readonly #partitions = new Map<number, Listened>();
  /** Runs, and messages, dropped because they did not fit their subject or were none. */
  malformed = 0;

  constructor(parts: HeardEphemeralsParts) {
    this.#parts = parts;
  }

  /** Partitions subscribed to. */
  get subscriptions(): number {
    return this.#partitions.size;
  }

  /** The first listener of a context's ephemeral events came, or its last one left. */
  listened({ owner, path }: ContextAddress, isListened: boolean): void {
    const partition = partitionOf(owner, path);
    let listened = this.#partitions.get(partition);
    if (listened === undefined) {
      const { broker } = this.#parts;
      const subscription = broker.subscribe(`live.${partition}`, (message) => this.#receive(partition, message));
      listened = { subscription, contexts: 0 };
      this.#partitions.set(partition, listened);
    }
    listened.contexts += isListened ? 1 : -1;
    if (listened.contexts > 0) return;
    listened.subscription.close();
    this.#partitions.delete(partition);
  }

  close(): void {
    for (const { subscription } of this.#partitions.values()) subscription.close();
    this.#partitions.clear();
  }

  #receive(partition: number, { data, reply }: Msg): void {
    if (reply?.startsWith(`${this.#parts.inbox}.`) === true) return;
    let batch: LiveBatch;
    try {
      batch = LiveBatch.decode(data);
    } catch {
      this.malformed += 1;
      return;
    }
    for (const run of batch.runs) {
      const hint = hintOf(partition, run);
      if (hint === undefined) this.malformed += 1;
      else if (this.#parts.isListenedTo(hint.address)) this.#parts.onHint(hint);
    }
  }
}

/** `undefined` when the run cannot be one of this partition. */
function hintOf(partition: number, { context, commitNo: commit, afterOffset, events }: LiveRun): EphemeralHint | undefined {
  if (context === undefined || partitionOf(context.owner, context.path) !== partition) return undefined;
  const commitNo = Number(commit);
  const after = Number(afterOffset);
  if (!Number.isSafeInteger(commitNo) || commitNo < 1 || after < 0) return undefined;
  let previous = after;
  for (const { offset, type, idempotencyKey, ephemeral } of events) {
    const isNext = Number.isSafeInteger(Number(offset)) && Number(offset) > previous;
    if (!isNext || !ephemeral || type === "" || idempotencyKey !== "") return undefined;
    previous = Number(offset);
  }
  return {
    address: { owner: context.owner, path: context.path },
    events: events.map((event) => ({
      event,
      offset: Number(event.offset),
      after,
      commitNo,
      bytes: (event.payload?.length ?? 0) + (event.metadata?.length ?? 0) + envelopeBytes,
    })),
  };
}
