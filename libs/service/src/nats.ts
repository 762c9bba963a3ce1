/**
 * The way to the broker: a connection that never gives up. The broker only carries hints, so nothing here waits for it: services
 * start, answer and publish without one, and what is published meanwhile is dropped and counted by the caller.
 *
 * States: `connecting` (never connected yet) → `connected` ⇄ `reconnecting` → `closed` (by `close` alone). A connection whose pings
 * stay unanswered is given up and made again; refused credentials are tried again too, because they may be rotated.
 */
import { setTimeout as pause } from "node:timers/promises";
import {
  connect,
  type Msg,
  type MsgHdrs,
  type NatsConnection,
  type NodeConnectionOptions,
  type Subscription,
} from "@nats-io/transport-node";
import { codedError } from "iterate/lib";
import { uuidv7 } from "./ids.js";
import type { Log } from "./log.js";

export interface BrokerOptions {
  /** `nats://host:port`, or several separated by commas; the first may hold `user:password@`. */
  url: string;
  /** Its replies come to `_INBOX.<user>.>`, which is all of `_INBOX` that user needs to be allowed. */
  user?: string;
  password?: string;
  /** Seen by operators in the server's list of connections. */
  name: string;
  log: Log;
  /** Between two pings, milliseconds: 5,000 unless told. A connection is stale after two that stay unanswered. */
  pingIntervalMs?: number;
  tls?: NodeConnectionOptions["tls"];
}

export type BrokerStatus = "connecting" | "connected" | "reconnecting" | "closed";

export interface PublishOptions {
  reply?: string;
  headers?: MsgHdrs;
}

export interface SubscribeOptions {
  /** Members of one queue share the messages. */
  queue?: string;
}

/** A subscription that outlives connections. */
export interface BrokerSubscription {
  close(): void;
}

const dialTimeoutMs = 5_000;
const minDelayMs = 100;
const maxDelayMs = 5_000;
const maxPingsOut = 2;

/** Starts connecting and answers at once. */
export function connectBroker(options: BrokerOptions): Broker {
  return new Broker(options);
}

/** Before attempt `n` (from 0) to connect, milliseconds: doubles up to 5 s, the upper half of it random. */
export function reconnectDelayMs(attempt: number, random: number): number {
  const ceiling = Math.min(maxDelayMs, minDelayMs * 2 ** Math.min(attempt, 16));
  return Math.round(ceiling * (0.5 + random / 2));
}

interface Registered {
  subject: string;
  options: SubscribeOptions;
  receive: (message: Msg) => void;
  current: Subscription | undefined;
}

export class Broker {
  readonly #options: BrokerOptions;
  readonly #stopping = new AbortController();
  readonly #statusListeners = new Set<(status: BrokerStatus) => void>();
  readonly #reconnectListeners = new Set<() => void>();
  readonly #subscriptions = new Set<Registered>();
  readonly #running: Promise<void>;
  #status: BrokerStatus = "connecting";
  #connection: NatsConnection | undefined;
  #attempt = 0;
  #delayMs = minDelayMs;

  constructor(options: BrokerOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  status(): BrokerStatus {
    return this.#status;
  }

  /** The connection as it is now, for requests and JetStream: take it anew at each use, another may have replaced it. */
  get connection(): NatsConnection | undefined {
    return this.#status === "connected" ? this.#connection : undefined;
  }

  /** A new subject for replies, among those this connection's user may hear. */
  newInbox(): string {
    return `${inboxPrefixOf(this.#options)}.${uuidv7()}`;
  }

  /** Calls `listener` at every change of the status, until the answered function is called. */
  onStatus(listener: (status: BrokerStatus) => void): () => void {
    this.#statusListeners.add(listener);
    return () => this.#statusListeners.delete(listener);
  }

  /** Calls `listener` whenever a connection is there again: messages may have been missed meanwhile. */
  onReconnect(listener: () => void): () => void {
    this.#reconnectListeners.add(listener);
    return () => this.#reconnectListeners.delete(listener);
  }

  /**
   * Hands a message to the connection, if there is one; never buffers for a later one.
   *
   * @returns whether it was handed over. True promises nothing about its arrival.
   * @throws Error when it is larger than the server takes (1 MiB).
   */
  publish(subject: string, payload: Uint8Array | string, options: PublishOptions = {}): boolean {
    const connection = this.connection;
    if (connection === undefined) return false;
    connection.publish(subject, payload, options);
    return true;
  }

  /** Receives messages of a subject over every connection to come. `receive` must not throw; what it throws is logged. */
  subscribe(subject: string, receive: (message: Msg) => void, options: SubscribeOptions = {}): BrokerSubscription {
    const registered: Registered = { subject, options, receive, current: undefined };
    this.#subscriptions.add(registered);
    this.#attach(registered);
    return {
      close: () => {
        this.#subscriptions.delete(registered);
        if (registered.current?.isClosed() === false) registered.current.unsubscribe();
      },
    };
  }

  /**
   * Waits for the server to have taken everything published and subscribed so far.
   *
   * @throws CodedError UNAVAILABLE when there is no connection or no answer within the bound.
   */
  async flush(timeoutMs = 2_000): Promise<void> {
    const connection = this.connection;
    const isFlushed = connection !== undefined && (await within(timeoutMs, connection.flush()));
    if (!isFlushed) throw codedError("UNAVAILABLE", "the broker does not answer");
  }

  /** Delivers what is under way for at most `graceMs`, then closes. Idempotent. */
  async close(graceMs = 2_000): Promise<void> {
    if (!this.#stopping.signal.aborted) {
      this.#stopping.abort();
      const connection = this.#connection;
      if (this.#status === "connected" && connection !== undefined) await within(graceMs, connection.drain());
      await within(graceMs, connection?.close() ?? Promise.resolve());
    }
    await within(graceMs + dialTimeoutMs, this.#running);
    this.#become("closed");
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      const connection = await this.#dial();
      if (connection === undefined) continue;
      if (signal.aborted) {
        await connection.close();
        return;
      }
      const isFirst = this.#connection === undefined;
      this.#connection = connection;
      this.#established(isFirst);
      await this.#follow(connection);
      if (!signal.aborted) this.#become("reconnecting");
    }
  }

  /** One attempt, after its delay. Later reconnects are the client library's. */
  async #dial(): Promise<NatsConnection | undefined> {
    const { name, tls } = this.#options;
    if (this.#attempt > 0) {
      await pause(this.#delayMs, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
      if (this.#stopping.signal.aborted) return undefined;
    }
    this.#nextDelay();
    try {
      return await connect({
        ...serversOf(this.#options),
        name,
        timeout: dialTimeoutMs,
        maxReconnectAttempts: -1,
        ignoreAuthErrorAbort: true,
        reconnectDelayHandler: () => this.#delayMs,
        pingInterval: this.#options.pingIntervalMs ?? 5_000,
        maxPingOut: maxPingsOut,
        ...(tls === undefined ? {} : { tls }),
      });
    } catch (error) {
      this.#options.log.warn("the broker cannot be reached", { error, attempt: this.#attempt, retry_ms: this.#delayMs });
      return undefined;
    }
  }

  /** Reports what happens to a connection until it is closed for good. */
  async #follow(connection: NatsConnection): Promise<void> {
    for await (const event of connection.status()) {
      switch (event.type) {
        case "disconnect":
          this.#options.log.warn("the broker connection is lost", { server: event.server });
          this.#become("reconnecting");
          break;
        case "reconnecting":
          this.#nextDelay();
          break;
        case "reconnect":
          this.#established(false);
          break;
        case "staleConnection":
          this.#options.log.warn("the broker stopped answering pings");
          break;
        case "error":
          this.#options.log.warn("the broker refused something", { error: event.error });
          break;
        default:
          break;
      }
    }
  }

  #established(isFirst: boolean): void {
    this.#attempt = 0;
    this.#delayMs = minDelayMs;
    this.#become("connected");
    for (const registered of this.#subscriptions) this.#attach(registered);
    this.#options.log.info("the broker is connected", { server: this.#connection?.getServer() });
    if (isFirst) return;
    for (const listener of this.#reconnectListeners) listener();
  }

  #attach(registered: Registered): void {
    if (this.#status !== "connected" || this.#connection === undefined) return;
    if (registered.current?.isClosed() === false) return;
    registered.current = this.#connection.subscribe(registered.subject, {
      ...registered.options,
      callback: (error, message) => {
        if (error !== null) {
          this.#options.log.warn("the broker ended a subscription", { subject: registered.subject, error });
          return;
        }
        try {
          registered.receive(message);
        } catch (thrown) {
          this.#options.log.error("a receiver of broker messages threw", { subject: registered.subject, error: thrown });
        }
      },
    });
  }

  #nextDelay(): void {
    this.#delayMs = reconnectDelayMs(this.#attempt++, Math.random());
  }

  #become(status: BrokerStatus): void {
    if (this.#status === status) return;
    this.#status = status;
    for (const listener of this.#statusListeners) listener(status);
  }
}

function serversOf(options: BrokerOptions): NodeConnectionOptions {
  const servers = urlsOf(options).map(({ host }) => host);
  const inboxPrefix = inboxPrefixOf(options);
  const user = userOf(options);
  const password = options.password ?? decodeURIComponent(urlsOf(options)[0]?.password ?? "");
  return user === "" ? { servers, inboxPrefix } : { servers, inboxPrefix, user, pass: password };
}

function inboxPrefixOf(options: BrokerOptions): string {
  const user = userOf(options);
  return user === "" ? "_INBOX" : `_INBOX.${user}`;
}

function userOf(options: BrokerOptions): string {
  return options.user ?? decodeURIComponent(urlsOf(options)[0]?.username ?? "");
}

function urlsOf({ url }: BrokerOptions): URL[] {
  return url.split(",").map((text) => new URL(text.includes("://") ? text : `nats://${text}`));
}

/** Whether `promise` resolved within the bound. */
async function within(timeoutMs: number, promise: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), timeoutMs)));
  try {
    return await Promise.race([
      late,
      promise.then(
        () => true,
        () => false,
      ),
    ]);
  } finally {
    clearTimeout(timer);
  }
}
