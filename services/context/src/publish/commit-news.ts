/**
 * The live side of one process in one piece: what it commits, and the ephemeral events it takes, are told to its own listeners and to
 * the broker, and the broker's news are heard.
 */
import type { Log } from "@iterate-platform/service/log";
import { realTimers, type Timers } from "../timers.js";
import type { Heads } from "../log/confirm.js";
import type { CommittedBatch, EphemeralBatch } from "../log/contract.js";
import { committedHint, toldEphemerals } from "./committed-events.js";
import type { CommitHint } from "./contract.js";
import { EphemeralRings } from "./ephemeral-rings.js";
import { HeardCommits } from "./heard-commits.js";
import { HeardEphemerals } from "./heard-ephemerals.js";
import { LiveHub } from "./hub.js";
import { LivePublisher } from "./live-publisher.js";
import type { NewsBroker } from "./news-broker.js";
import { Publisher } from "./publisher.js";
import { maxRecentBytes } from "./recent-commits.js";

export interface CommitNewsParts {
  readonly broker: NewsBroker;
  readonly log: Log;
  readonly heads: Heads;
  /** Called when no stream of the broker takes what is published. */
  readonly onUnstored: () => void;
  /** Called after every round of confirmations. */
  readonly onConfirmed?: () => void;
  readonly timers?: Timers;
}

export class CommitNews {
  readonly hub: LiveHub;
  readonly publisher: Publisher;
  readonly heard: HeardCommits;
  /** Recent ephemeral events this process took. */
  readonly rings: EphemeralRings;
  readonly livePublisher: LivePublisher;
  readonly heardLive: HeardEphemerals;

  constructor({ broker, log, heads, onUnstored, onConfirmed, timers = realTimers }: CommitNewsParts) {
    const inbox = broker.newInbox();
    this.hub = new LiveHub({
      confirm: (address) => heads.confirm(address),
      onListened: (address, isListened) => this.heard.listened(address, isListened),
      onEphemeralsListened: (address, isListened) => this.heardLive.listened(address, isListened),
      onConfirmFailed: (error) => log.debug("heads could not be confirmed", { error }),
      timers,
      onConfirmed: () => {
        this.rings.sweep();
        onConfirmed?.();
      },
    });
    this.heard = new HeardCommits({
      broker,
      inbox,
      isListenedTo: (address) => this.hub.isListenedTo(address),
      onHint: (hint) => this.#heardCommit(hint),
      onSubscribed: () => void this.hub.confirmAll(),
    });
    this.publisher = new Publisher({ broker, log, inbox, onUnstored, timers });
    this.livePublisher = new LivePublisher({ broker, log, inbox, timers });
    this.heardLive = new HeardEphemerals({
      broker,
      inbox,
      isListenedTo: (address) => this.hub.isListenedToAll(address),
      onHint: (hint) => this.hub.tell(hint),
    });
    // Who hands out offsets of its own memory listens for the commits of others, which end that.
    this.rings = new EphemeralRings({
      nowMs: () => timers.nowMs(),
      onKept: (address) => {
        const listening = this.hub.listen(address, "commits");
        return () => listening.close();
      },
    });
    this.hub.start();
  }

  /** Takes what this process committed, right after it did. Never throws or waits. */
  readonly observe = (batch: CommittedBatch): void => {
    for (const commit of batch.commits) {
      this.livePublisher.flush(commit.head);
      const { address } = commit.head;
      if (this.hub.isListenedTo(address))
        this.hub.hint(committedHint(commit, batch.atUs, this.hub.isRead(address) ? maxRecentBytes : 0));
    }
    this.publisher.add(batch);
  };

  /** Takes ephemeral events of this process, before the commit they are part of is observed. Never throws or waits. */
  readonly observeEphemerals = (batch: EphemeralBatch): void => {
    const { head } = batch;
    const events = toldEphemerals(batch);
    this.rings.add(head.address, events);
    this.hub.tell({ address: head.address, events });
    this.livePublisher.add(head, events);
  };

  /** A commit of another process ends what this one may hand out: the sooner it is known, the fewer events go nowhere. */
  #heardCommit(hint: CommitHint): void {
    this.hub.hint(hint);
    if (this.rings.of(hint.address) !== undefined) this.hub.doubt(hint.address);
  }

  /** Sends what waits for at most `graceMs`, then stops. */
  async close(graceMs: number): Promise<void> {
    this.livePublisher.close();
    await this.publisher.close(graceMs);
    this.rings.clear();
    this.heardLive.close();
    this.heard.close();
    this.hub.stop();
  }
}
