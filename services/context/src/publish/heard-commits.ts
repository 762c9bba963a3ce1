/**
 * Hears what other processes committed, for the contexts this one has listeners for: a plain subscription for each bucket that holds
 * one. Messages are hints from outside: what is not a message of its subject is dropped and counted.
 */
import type { Msg } from "@nats-io/transport-node";
import { CommitBatch, type Commit } from "@iterate-platform/proto/iterate/context/v1/feed";
import { bucketOf, partitionOf } from "@iterate-platform/service/ids";
import type { BrokerSubscription } from "@iterate-platform/service/nats";
import type { ContextAddress } from "../log/contract.js";
import { envelopeBytes } from "./committed-events.js";
import type { CommitHint } from "./contract.js";
import type { NewsBroker } from "./news-broker.js";

export interface HeardCommitsParts {
  readonly broker: NewsBroker;
  /** Replies to messages of this process begin with it: it knows its own commits already. */
  readonly inbox: string;
  readonly isListenedTo: (address: ContextAddress) => boolean;
  readonly onHint: (hint: CommitHint) => void;
  /** What was committed while no subscription stood must be asked for. */
  readonly onSubscribed: () => void;
}

export class HeardCommits {
  readonly #parts: HeardCommitsParts;
  /** By bucket, how many contexts are listened to in it. */
  readonly #contexts = new Map<number, number>();
  readonly #subscriptions = new Map<number, BrokerSubscription>();
  readonly #stopListening: () => void;
  /** Commits dropped because they did not fit their message or were not one. */
  malformed = 0;

  constructor(parts: HeardCommitsParts) {
    this.#parts = parts;
    this.#stopListening = parts.broker.onReconnect(() => this.#subscribed());
  }

  /** The first listener of a context came, or its last one left. */
  listened({ owner, path }: ContextAddress, isListened: boolean): void {
    const bucket = bucketOf(partitionOf(owner, path));
    const contexts = (this.#contexts.get(bucket) ?? 0) + (isListened ? 1 : -1);
    this.#contexts.set(bucket, contexts);
    if (contexts === 0) {
      this.#subscriptions.get(bucket)?.close();
      this.#subscriptions.delete(bucket);
    } else if (!this.#subscriptions.has(bucket)) {
      this.#subscriptions.set(
        bucket,
        this.#parts.broker.subscribe(`ctx.${bucket}`, (message) => this.#receive(bucket, message)),
      );
      this.#subscribed();
    }
  }

  close(): void {
    this.#stopListening();
    for (const subscription of this.#subscriptions.values()) subscription.close();
    this.#subscriptions.clear();
  }

  /** Once the broker has the subscriptions, what came before them is asked for. Without a broker the 500 ms do it. */
  #subscribed(): void {
    this.#parts.broker.flush().then(this.#parts.onSubscribed, () => undefined);
  }

  #receive(bucket: number, { data, reply }: Msg): void {
    if (reply?.startsWith(`${this.#parts.inbox}.`) === true) return;
    let batch: CommitBatch;
    try {
      batch = CommitBatch.decode(data);
    } catch {
      this.malformed += 1;
      return;
    }
    for (const commit of batch.commits) {
      const hint = hintOf(bucket, commit);
      if (hint === undefined) this.malformed += 1;
      else if (this.#parts.isListenedTo(hint.address)) this.#parts.onHint(hint);
    }
  }
}

/** `undefined` when the commit cannot be one of this bucket. */
function hintOf(bucket: number, commit: Commit): CommitHint | undefined {
  const { context, commitNo, firstOffset, lastOffset, reservedThrough, events, inlined } = commit;
  if (context === undefined || bucketOf(partitionOf(context.owner, context.path)) !== bucket) return undefined;
  const numbers = [commitNo, firstOffset, lastOffset, reservedThrough].map(Number);
  if (!numbers.every((number) => Number.isSafeInteger(number) && number >= 0) || commitNo < 1n) return undefined;
  return {
    address: { owner: context.owner, path: context.path },
    commitNo: numbers[0]!,
    firstOffset: numbers[1]!,
    lastOffset: numbers[2]!,
    reservedThrough: Math.max(numbers[2]!, numbers[3]!),
    events: inlined ? events : undefined,
    bytes: inlined
      ? events.reduce((sum, { payload, metadata }) => sum + (payload?.length ?? 0) + (metadata?.length ?? 0) + envelopeBytes, 0)
      : 0,
  };
}
