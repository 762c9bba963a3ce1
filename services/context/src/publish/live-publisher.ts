/**
 * Tells the other processes of ephemeral events on `live.<partition>`: what comes within 5 ms goes in one message, and what a commit
 * supersedes goes before it, so that a reader meets both in their order. Nothing is acknowledged or sent twice; without a broker, beyond
 * 16 MiB waiting, and larger than a message can be, an event is dropped and counted.
 *
 * A partition is idle → (event) scheduled → (turn ends, 5 ms after the last message, or a commit) sent → idle.
 */
import { LiveBatch, type LiveRun } from "@iterate-platform/proto/iterate/context/v1/live";
import type { Log } from "@iterate-platform/service/log";
import type { ContextAddress, ContextHead } from "../log/contract.js";
import type { Timers } from "../timers.js";
import type { ToldEphemeral } from "./contract.js";
import type { NewsBroker } from "./news-broker.js";

/** Longest time an event waits for others. */
export const batchMs = 5;
/** What one message holds, as estimated, unless that is one event; the broker takes 1 MiB. */
export const maxMessageBytes = 786_432;
const maxWaitingBytes = 16_777_216;

export interface LivePublisherParts {
  readonly broker: NewsBroker;
  readonly log: Log;
  /** Replies that begin with it mark this process's own messages. */
  readonly inbox: string;
  readonly timers: Timers;
}

/** Since the start. */
export interface LiveCounts {
  events: number;
  messages: number;
  /** Events that were not sent. */
  dropped: number;
}

interface Partition {
  readonly subject: string;
  runs: LiveRun[];
  /** Ids of the contexts of `runs`, and that of the last run. */
  readonly contexts: Set<number>;
  lastContext: number;
  bytes: number;
  sentAtMs: number;
  isScheduled: boolean;
}

export class LivePublisher {
  readonly #parts: LivePublisherParts;
  readonly #partitions = new Map<number, Partition>();
  readonly counts: LiveCounts = { events: 0, messages: 0, dropped: 0 };
  #waitingBytes = 0;
  #isClosed = false;

  constructor(parts: LivePublisherParts) {
    this.#parts = parts;
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Takes ephemeral events of one context that were handed out in this order. Never throws or waits. */
  add({ contextId, partition: number, address }: ContextHead, events: readonly ToldEphemeral[]): void {
    this.counts.events += events.length;
    const { broker } = this.#parts;
    for (const { event, commitNo, after, bytes } of events) {
      const isTaken = bytes <= maxMessageBytes && this.#waitingBytes + bytes <= maxWaitingBytes && broker.status() === "connected";
      if (!isTaken || this.#isClosed) {
        this.counts.dropped += 1;
        continue;
      }
      const partition = this.#partition(number);
      const last = partition.runs.at(-1);
      const isContinued =
        last !== undefined &&
        partition.lastContext === contextId &&
        last.commitNo === BigInt(commitNo) &&
        last.afterOffset === BigInt(after);
      const added = bytes + (isContinued ? 0 : runBytes(address));
      if (partition.bytes + added > maxMessageBytes) this.#send(partition);
      // What was sent ended the run.
      if (isContinued && partition.runs.length > 0) last.events.push(event);
      else
        partition.runs.push({
          context: { owner: address.owner, path: address.path },
          commitNo: BigInt(commitNo),
          afterOffset: BigInt(after),
          events: [event],
        });
      partition.contexts.add(contextId);
      partition.lastContext = contextId;
      partition.bytes += added;
      this.#waitingBytes += added;
      this.#schedule(partition);
    }
  }

  /** Sends what waits of a context: a commit of it is about to be told. */
  flush({ contextId, partition: number }: ContextHead): void {
    if (this.#waitingBytes === 0) return;
    const partition = this.#partitions.get(number);
    if (partition?.contexts.has(contextId) === true) this.#send(partition);
  }

  /** Sends what waits and takes nothing more. */
  close(): void {
    for (const partition of this.#partitions.values()) this.#send(partition);
    this.#isClosed = true;
  }

  #partition(number: number): Partition {
    let partition = this.#partitions.get(number);
    if (partition === undefined) {
      partition = {
        subject: `live.${number}`,
        runs: [],
        contexts: new Set(),
        lastContext: -1,
        bytes: 0,
        sentAtMs: -batchMs,
        isScheduled: false,
      };
      this.#partitions.set(number, partition);
    }
    return partition;
  }

  #schedule(partition: Partition): void {
    if (partition.isScheduled) return;
    partition.isScheduled = true;
    const { timers } = this.#parts;
    const send = (): void => {
      partition.isScheduled = false;
      this.#send(partition);
    };
    const waitMs = partition.sentAtMs + batchMs - timers.nowMs();
    if (waitMs <= 0) timers.soon(send);
    else timers.after(waitMs, send);
  }

  #send(partition: Partition): void {
    const { runs, subject, bytes } = partition;
    if (runs.length === 0) return;
    const { broker, inbox, log, timers } = this.#parts;
    partition.runs = [];
    partition.contexts.clear();
    partition.bytes = 0;
    partition.sentAtMs = timers.nowMs();
    this.#waitingBytes -= bytes;
    const events = runs.reduce((sum, run) => sum + run.events.length, 0);
    try {
      if (broker.publish(subject, LiveBatch.encode({ runs }).finish(), { reply: `${inbox}.live` })) this.counts.messages += 1;
      else this.counts.dropped += events;
    } catch (error) {
      this.counts.dropped += events;
      log.error("a message of ephemeral events could not be published", { subject, bytes, error });
    }
  }
}

/** What a run takes beside its events: its context is said once. */
function runBytes({ owner, path }: ContextAddress): number {
  return 32 + owner.length + 3 * path.length;
}
