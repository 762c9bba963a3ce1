/**
 * A broker that drops, repeats, delays and reorders, and a connection to it for each process, which comes and goes. What it does to
 * messages is seeded; subscriptions outlive connections as those of the real one do.
 */
import type { Msg } from "@nats-io/transport-node";
import type { BrokerStatus, BrokerSubscription, PublishOptions } from "@iterate-platform/service/nats";
import { codedError } from "iterate/lib";
import type { NewsBroker } from "../../src/publish/news-broker.js";
import type { Random } from "./random.js";
import type { VirtualTime } from "./virtual-time.js";

export interface BrokerWeather {
  readonly drop: number;
  readonly repeat: number;
  /** Longest delay of a message. */
  readonly delayMs: number;
}

interface Subscription {
  readonly pattern: readonly string[];
  readonly receive: (message: Msg) => void;
}

export class SimulatedBroker {
  readonly #time: VirtualTime;
  readonly #random: Random;
  readonly #weather: () => BrokerWeather;
  readonly #connections = new Set<BrokerConnection>();
  #inboxes = 0;

  constructor(time: VirtualTime, random: Random, weather: () => BrokerWeather) {
    this.#time = time;
    this.#random = random;
    this.#weather = weather;
  }

  /** The connection of one process. */
  connect(): BrokerConnection {
    const connection = new BrokerConnection(this);
    this.#connections.add(connection);
    return connection;
  }

  newInbox(): string {
    return `_INBOX.${(this.#inboxes += 1)}`;
  }

  /** Takes a message, and answers it as the stream of commits does. */
  publish(subject: string, payload: Uint8Array | string, { reply }: PublishOptions): void {
    const data = typeof payload === "string" ? Buffer.from(payload) : payload;
    this.#deliver({ subject, data, reply });
    if (reply !== undefined) this.#deliver({ subject: reply, data: Buffer.from('{"stream":"CTX"}'), reply: undefined });
  }

  flush(): Promise<void> {
    return this.#time.sleep(this.#random.next() * this.#weather().delayMs);
  }

  #deliver(message: Pick<Msg, "subject" | "data"> & { readonly reply: string | undefined }): void {
    const { drop, repeat, delayMs } = this.#weather();
    for (const connection of this.#connections) {
      for (let copies = this.#random.chance(repeat) ? 2 : 1; copies > 0; copies -= 1) {
        if (this.#random.chance(drop)) continue;
        this.#time.after(this.#random.next() * delayMs, () => connection.receive(message as Msg));
      }
    }
  }
}

export class BrokerConnection implements NewsBroker {
  readonly #broker: SimulatedBroker;
  readonly #subscriptions = new Set<Subscription>();
  readonly #statusListeners = new Set<(status: BrokerStatus) => void>();
  readonly #reconnectListeners = new Set<() => void>();
  #status: BrokerStatus = "connected";

  constructor(broker: SimulatedBroker) {
    this.#broker = broker;
  }

  status(): BrokerStatus {
    return this.#status;
  }

  newInbox(): string {
    return this.#broker.newInbox();
  }

  publish(subject: string, payload: Uint8Array | string, options: PublishOptions = {}): boolean {
    if (this.#status !== "connected") return false;
    this.#broker.publish(subject, payload, options);
    return true;
  }

  subscribe(subject: string, receive: (message: Msg) => void): BrokerSubscription {
    const subscription = { pattern: subject.split("."), receive };
    this.#subscriptions.add(subscription);
    return { close: () => void this.#subscriptions.delete(subscription) };
  }

  async flush(): Promise<void> {
    if (this.#status === "connected") await this.#broker.flush();
    if (this.#status !== "connected") throw codedError("UNAVAILABLE", "the broker does not answer");
  }

  onStatus(listener: (status: BrokerStatus) => void): () => void {
    this.#statusListeners.add(listener);
    return () => this.#statusListeners.delete(listener);
  }

  onReconnect(listener: () => void): () => void {
    this.#reconnectListeners.add(listener);
    return () => this.#reconnectListeners.delete(listener);
  }

  receive(message: Msg): void {
    if (this.#status !== "connected") return;
    const subject = message.subject.split(".");
    for (const { pattern, receive } of [...this.#subscriptions]) if (matches(pattern, subject)) receive(message);
  }

  /** The connection is lost; it comes back by `reconnect` alone. */
  disconnect(): void {
    if (this.#status === "connected") this.#become("reconnecting");
  }

  reconnect(): void {
    if (this.#status !== "reconnecting") return;
    this.#become("connected");
    for (const listener of this.#reconnectListeners) listener();
  }

  /** The process is gone. */
  end(): void {
    this.#status = "closed";
    this.#subscriptions.clear();
  }

  #become(status: BrokerStatus): void {
    this.#status = status;
    for (const listener of this.#statusListeners) listener(status);
  }
}

function matches(pattern: readonly string[], subject: readonly string[]): boolean {
  return pattern.length === subject.length && pattern.every((token, at) => token === "*" || token === subject[at]);
}
