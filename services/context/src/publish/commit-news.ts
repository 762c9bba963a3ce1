/** The live side of one process in one piece: what it commits is told to its own listeners and to the broker, and the broker's news are heard. */
import type { Log } from "@iterate-platform/service/log";
import { realTimers, type Timers } from "../timers.js";
import type { Heads } from "../log/confirm.js";
import type { CommittedBatch } from "../log/contract.js";
import { committedHint } from "./committed-events.js";
import { HeardCommits } from "./heard-commits.js";
import { LiveHub } from "./hub.js";
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

  constructor({ broker, log, heads, onUnstored, onConfirmed, timers = realTimers }: CommitNewsParts) {
    const inbox = broker.newInbox();
    this.hub = new LiveHub({
      confirm: (address) => heads.confirm(address),
      onListened: (address, isListened) => this.heard.listened(address, isListened),
      onConfirmFailed: (error) => log.debug("heads could not be confirmed", { error }),
      timers,
      ...(onConfirmed === undefined ? {} : { onConfirmed }),
    });
    this.heard = new HeardCommits({
      broker,
      inbox,
      isListenedTo: (address) => this.hub.isListenedTo(address),
      onHint: (hint) => this.hub.hint(hint),
      onSubscribed: () => void this.hub.confirmAll(),
    });
    this.publisher = new Publisher({ broker, log, inbox, onUnstored, timers });
    this.hub.start();
  }

  /** Takes what this process committed, right after it did. Never throws or waits. */
  readonly observe = (batch: CommittedBatch): void => {
    for (const commit of batch.commits) {
      if (this.hub.isListenedTo(commit.head.address)) this.hub.hint(committedHint(commit, batch.atUs, maxRecentBytes));
    }
    this.publisher.add(batch);
  };

  /** Sends what waits for at most `graceMs`, then stops. */
  async close(graceMs: number): Promise<void> {
    await this.publisher.close(graceMs);
    this.heard.close();
    this.hub.stop();
  }
}
