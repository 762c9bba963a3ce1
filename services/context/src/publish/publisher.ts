/**
 * Tells the other processes of commits: one message per bucket in flight, and what commits meanwhile goes with the next. It is told
 * after a commit and never delays its answer; what it says are hints, so nothing is sent twice, a message without an answer within
 * 2 s is let go, and beyond 64 MiB waiting the newest is dropped and counted: the readers' confirmations find it.
 *
 * A bucket is idle → (commit) scheduled → (turn ends, broker there) in flight → (acknowledged, refused, or 2 s) idle or scheduled.
 */
import { pause, realTimers, type Timers } from "../timers.js";
import type { BrokerSubscription } from "@iterate-platform/service/nats";
import { bucketCount, bucketOf } from "@iterate-platform/service/ids";
import type { Log } from "@iterate-platform/service/log";
import type { CommittedBatch } from "../log/contract.js";
import type { NewsBroker } from "./news-broker.js";
import { PendingBucket } from "./pending-bucket.js";
import { ackOf } from "./publish-ack.js";
import { TracedAppends } from "./publish-trace.js";

const maxWaitingBytes = 67_108_864;
const ackTimeoutMs = 2_000;

export interface PublisherParts {
  readonly broker: NewsBroker;
  readonly log: Log;
  /** Subject prefix of this process's acknowledgements, without a trailing dot; also marks its messages as its own. */
  readonly inbox: string;
  /** Called when no stream takes the subjects. */
  readonly onUnstored: () => void;
  readonly timers?: Timers;
}

/** Since the start, messages but for `dropped` and `commits`. */
export interface PublishCounts {
  commits: number;
  sent: number;
  acknowledged: number;
  /** Refused by the stream, or no stream there: live readers heard them all the same. */
  unstored: number;
  /** Without an answer in time. */
  unanswered: number;
  /** Commits that found no room. */
  dropped: number;
}

interface Bucket {
  readonly subject: string;
  readonly pending: PendingBucket;
  readonly traced: TracedAppends;
  /** Number of the message in flight. */
  inFlight: number | undefined;
  /** Ends the wait for its answer. */
  cancelTimeout: (() => void) | undefined;
}

export class Publisher {
  readonly #parts: PublisherParts;
  readonly #timers: Timers;
  readonly #buckets: readonly Bucket[];
  readonly #acks: BrokerSubscription;
  readonly #stopListening: () => void;
  readonly counts: PublishCounts = { commits: 0, sent: 0, acknowledged: 0, unstored: 0, unanswered: 0, dropped: 0 };
  #waitingBytes = 0;
  #messageNo = 0;
  #scheduled = new Set<Bucket>();
  #isClosed = false;

  constructor(parts: PublisherParts) {
    this.#parts = parts;
    this.#timers = parts.timers ?? realTimers;
    this.#buckets = Array.from({ length: bucketCount }, (_, at) => ({
      subject: `ctx.${at}`,
      pending: new PendingBucket(),
      traced: new TracedAppends(),
      inFlight: undefined,
      cancelTimeout: undefined,
    }));
    this.#acks = parts.broker.subscribe(`${parts.inbox}.*.*`, (message) => this.#acknowledged(message.subject, ackOf(message)));
    this.#stopListening = parts.broker.onStatus((status) => {
      if (status === "connected") for (const bucket of this.#buckets) this.#schedule(bucket);
    });
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Takes what a statement of this process committed. Never throws. */
  add(batch: CommittedBatch): void {
    if (this.#isClosed) return;
    for (const commit of batch.commits) {
      const bucket = this.#buckets[bucketOf(commit.head.partition)]!;
      const before = bucket.pending.bytes;
      this.counts.commits += 1;
      if (bucket.pending.add(commit, batch.atUs, maxWaitingBytes - this.#waitingBytes)) bucket.traced.note(commit);
      else this.counts.dropped += 1;
      this.#waitingBytes += bucket.pending.bytes - before;
      this.#schedule(bucket);
    }
  }

  /** Sends what waits and hears its answers, for at most `graceMs`; then takes nothing more. */
  async close(graceMs: number): Promise<void> {
    const isDone = (): boolean => this.#buckets.every(({ inFlight, pending }) => inFlight === undefined && pending.isEmpty);
    const until = this.#timers.nowMs() + graceMs;
    while (!isDone() && this.#timers.nowMs() < until && this.#parts.broker.status() === "connected") await pause(this.#timers, 10);
    this.#isClosed = true;
    this.#stopListening();
    this.#acks.close();
    for (const bucket of this.#buckets) bucket.cancelTimeout?.();
  }

  /** At the end of this turn of the event loop, so that what commits together is sent together. */
  #schedule(bucket: Bucket): void {
    if (bucket.inFlight !== undefined || bucket.pending.isEmpty || this.#isClosed) return;
    if (this.#scheduled.size === 0) this.#timers.soon(() => this.#sendScheduled());
    this.#scheduled.add(bucket);
  }

  #sendScheduled(): void {
    const due = this.#scheduled;
    this.#scheduled = new Set();
    for (const bucket of due) if (bucket.inFlight === undefined && !this.#isClosed) this.#send(bucket);
  }

  #send(bucket: Bucket): void {
    const { broker, inbox, log } = this.#parts;
    // Kept for later: the next connection sends it.
    if (broker.status() !== "connected") return;
    const before = bucket.pending.bytes;
    const next = bucket.pending.take();
    this.#waitingBytes += bucket.pending.bytes - before;
    if (next === undefined) return;
    const messageNo = ++this.#messageNo;
    bucket.inFlight = messageNo;
    bucket.cancelTimeout = this.#timers.after(ackTimeoutMs, () => this.#unanswered(bucket, messageNo));
    this.counts.sent += 1;
    try {
      broker.publish(bucket.subject, next.body, { reply: `${inbox}.${bucket.subject.slice("ctx.".length)}.${messageNo}` });
      bucket.traced.published(bucket.subject);
    } catch (error) {
      log.error("a message of commits could not be published", { subject: bucket.subject, bytes: next.body.length, error });
      this.#settle(bucket);
    }
  }

  #acknowledged(subject: string, ack: ReturnType<typeof ackOf>): void {
    const [bucketNo, messageNo] = subject.slice(this.#parts.inbox.length + 1).split(".");
    const bucket = this.#buckets[Number(bucketNo)];
    if (bucket === undefined || bucket.inFlight !== Number(messageNo)) return;
    if (ack.kind === "stored") this.counts.acknowledged += 1;
    else this.#unstored(ack.reason);
    this.#settle(bucket);
  }

  #unstored(reason: string): void {
    this.counts.unstored += 1;
    this.#parts.log.debug("the stream of commits did not take a message", { reason });
    this.#parts.onUnstored();
  }

  #unanswered(bucket: Bucket, messageNo: number): void {
    if (bucket.inFlight !== messageNo) return;
    this.counts.unanswered += 1;
    this.#settle(bucket);
  }

  #settle(bucket: Bucket): void {
    bucket.cancelTimeout?.();
    bucket.inFlight = undefined;
    this.#schedule(bucket);
  }
}
