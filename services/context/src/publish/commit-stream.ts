/**
 * The broker's stream of commits. It is made when the service starts and made again for ever after: a broker may lose its disk at
 * any time, and then readers of the whole stream find a new one.
 */
import {
  jetstreamManager,
  DiscardPolicy,
  RetentionPolicy,
  StorageType,
  JetStreamApiError,
  type StreamConfig,
} from "@nats-io/jetstream";
import type { Broker } from "@iterate-platform/service/nats";
import type { Log } from "@iterate-platform/service/log";

export const commitStreamName = "CTX";

const nanosPerSecond = 1_000_000_000;
/** Looked at this often although nothing seems wrong. */
const checkEveryMs = 30_000;
const minRetryMs = 500;
const requestTimeoutMs = 5_000;
/** JetStream's "stream not found". */
const streamNotFound = 10_059;

export function commitStreamConfig(
  replicas: number,
): Pick<
  StreamConfig,
  "name" | "subjects" | "retention" | "storage" | "discard" | "max_age" | "max_bytes" | "duplicate_window" | "num_replicas"
> {
  return {
    name: commitStreamName,
    subjects: ["ctx.*"],
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    discard: DiscardPolicy.Old,
    max_age: 24 * 3_600 * nanosPerSecond,
    max_bytes: 1_073_741_824,
    duplicate_window: 120 * nanosPerSecond,
    num_replicas: replicas,
  };
}

export interface CommitStreamParts {
  readonly broker: Broker;
  readonly log: Log;
  /** 1 on one machine, 3 in a cluster. */
  readonly replicas: number;
}

export class CommitStream {
  readonly #parts: CommitStreamParts;
  readonly #stopListening: () => void;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #failures = 0;
  #isClosed = false;

  constructor(parts: CommitStreamParts) {
    this.#parts = parts;
    this.#stopListening = parts.broker.onStatus((status) => {
      if (status === "connected") this.ensure();
    });
    this.ensure();
  }

  /** Looks after the stream now, unless that is being done. */
  ensure(): void {
    if (this.#isClosed || this.#running !== undefined) return;
    clearTimeout(this.#timer);
    this.#running = this.#ensure().finally(() => {
      this.#running = undefined;
      if (this.#isClosed) return;
      const delayMs = this.#failures === 0 ? checkEveryMs : Math.min(checkEveryMs, minRetryMs * 2 ** this.#failures);
      this.#timer = setTimeout(() => this.ensure(), delayMs);
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#stopListening();
    await this.#running;
  }

  async #ensure(): Promise<void> {
    const { broker, log, replicas } = this.#parts;
    const { connection } = broker;
    // The next connection comes back here.
    if (connection === undefined) return;
    try {
      const manager = await jetstreamManager(connection, { timeout: requestTimeoutMs, checkAPI: false });
      const wanted = commitStreamConfig(replicas);
      const present = await manager.streams.info(commitStreamName).catch((error: unknown) => {
        if (error instanceof JetStreamApiError && error.code === streamNotFound) return undefined;
        throw error;
      });
      if (present === undefined) {
        await manager.streams.add(wanted);
        log.info("the stream of commits is made", { stream: commitStreamName });
      } else if (differs(present.config, wanted)) {
        await manager.streams.update(commitStreamName, wanted);
        log.info("the stream of commits is configured anew", { stream: commitStreamName });
      }
      this.#failures = 0;
    } catch (error) {
      this.#failures = Math.min(this.#failures + 1, 16);
      if (!this.#isClosed)
        log.warn("the stream of commits could not be looked after; live readers are served without it", { error });
    }
  }
}

/** `retention` and `storage` cannot be changed; whoever made another stream by hand must remove it. */
function differs(present: StreamConfig, wanted: ReturnType<typeof commitStreamConfig>): boolean {
  const keys = ["subjects", "discard", "max_age", "max_bytes", "duplicate_window", "num_replicas"] as const;
  return keys.some((key) => JSON.stringify(present[key]) !== JSON.stringify(wanted[key]));
}
