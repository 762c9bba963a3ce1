/**
 * A TCP proxy that misbehaves on command, between a client under test and a real server. It starts transparent; faults apply to
 * open and new connections alike until `heal`.
 *
 * What it can do: `delay` (every chunk, both ways), `drop` (silence: connections stay open, nothing passes, as when a cable is
 * pulled), `refuse` (new connections are refused), `cut` (open connections end, FIN), `reset` (open connections end, RST), and
 * `cutAtAnswer` (reset at the first byte the server answers after the client sent something: between COMMIT and its answer).
 */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** What the client must have sent, on one connection and counted from the arming, before the server's next byte cuts it. */
export type CutTrigger = { afterClientBytes: number } | { afterClientText: string };

interface Link {
  client: Socket;
  upstream: Socket;
}

interface Armed {
  trigger: CutTrigger;
  done(): void;
}

export class FaultProxy {
  readonly #target: { host: string; port: number };
  readonly #links = new Set<Link>();
  #server: Server | undefined;
  #port = 0;
  #delayMs = 0;
  #isDropping = false;
  #armed: Armed | undefined;
  readonly #timers = new Set<NodeJS.Timeout>();
  #held: (() => void)[] = [];

  private constructor(target: { host: string; port: number }) {
    this.#target = target;
  }

  /** A proxy on a free port of 127.0.0.1 towards `target`: a URL (whose port it uses) or `host:port`. */
  static async start(target: string): Promise<FaultProxy> {
    const url = new URL(target.includes("://") ? target : `tcp://${target}`);
    if (url.port === "") throw new Error(`name the port to proxy to: ${url.host}`);
    const proxy = new FaultProxy({ host: url.hostname, port: Number(url.port) });
    await proxy.#listen();
    return proxy;
  }

  get port(): number {
    return this.#port;
  }

  /** Connections open through it now. */
  get connections(): number {
    return this.#links.size;
  }

  /** `target`'s URL with the proxy's address in place of the server's. */
  url(target: string): string {
    const url = new URL(target);
    url.hostname = "127.0.0.1";
    url.port = String(this.#port);
    return url.href;
  }

  /** Holds every chunk, both ways, for `ms`. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** Silence: nothing passes, in open and new connections, and nobody is told. What was sent meanwhile passes at `heal`. */
  drop(): void {
    this.#isDropping = true;
  }

  /** New connections are refused; open ones stay. */
  refuse(): void {
    // `close` calls back once the last open connection has ended, but the port is given up at once.
    this.#server?.close();
    this.#server = undefined;
  }

  /** Ends every open connection in an orderly way. Answers how many. */
  cut(): number {
    return this.#end((socket) => socket.destroy());
  }

  /** Ends every open connection with a reset. Answers how many. */
  reset(): number {
    return this.#end((socket) => socket.resetAndDestroy());
  }

  /**
   * Arms one cut: the first connection whose client sends what `trigger` names is reset at the server's next byte, which does
   * not reach the client. The server has done the work by then; the client cannot know.
   *
   * @returns when the cut has happened. It never rejects: bound the wait with the test's own.
   */
  cutAtAnswer(trigger: CutTrigger): Promise<void> {
    return new Promise((resolve) => {
      this.#armed = { trigger, done: resolve };
    });
  }

  /** Undoes delay, drop, refuse and an armed cut. */
  async heal(): Promise<void> {
    this.#delayMs = 0;
    this.#isDropping = false;
    this.#armed = undefined;
    for (const release of this.#held.splice(0)) release();
    if (this.#server === undefined) await this.#listen();
  }

  /** Ends every connection and gives up the port. */
  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#held = [];
    this.refuse();
    this.reset();
  }

  #end(how: (socket: Socket) => void): number {
    const links = [...this.#links];
    for (const { client, upstream } of links) {
      how(client);
      how(upstream);
    }
    return links.length;
  }

  async #listen(): Promise<void> {
    const server = createServer((client) => this.#accept(client));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.#port, "127.0.0.1", resolve);
    });
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  #accept(client: Socket): void {
    const upstream = connect({ ...this.#target, noDelay: true });
    client.setNoDelay(true);
    const link: Link = { client, upstream };
    this.#links.add(link);
    const watch = new AnswerWatch(() => this.#armed);
    this.#pipe(client, upstream, (chunk) => watch.sawFromClient(chunk));
    this.#pipe(upstream, client, () => {
      if (!watch.isMet()) return;
      this.#armed?.done();
      this.#armed = undefined;
      client.resetAndDestroy();
      upstream.resetAndDestroy();
    });
    for (const socket of [client, upstream]) {
      // An error of one side ends both; `close` follows every error.
      socket.on("error", () => undefined);
      socket.on("close", () => {
        client.destroy();
        upstream.destroy();
        this.#links.delete(link);
      });
    }
  }

  #pipe(from: Socket, to: Socket, see: (chunk: Buffer) => void): void {
    let waiting = 0;
    let tail: Promise<unknown> = Promise.resolve();
    const inOrder = (step: () => void): void => {
      if (waiting === 0 && !this.#isDropping && this.#delayMs === 0) return step();
      waiting++;
      const due = this.#delayMs === 0 ? undefined : this.#pause(this.#delayMs);
      tail = tail
        .then(() => due)
        .then(() => this.#passage())
        .then(() => {
          waiting--;
          step();
        });
    };
    from.on("data", (chunk: Buffer) => {
      see(chunk);
      inOrder(() => {
        if (to.destroyed || to.write(chunk)) return;
        from.pause();
        to.once("drain", () => from.resume());
      });
    });
    from.on("end", () => inOrder(() => to.end()));
  }

  /** Open at once, or when the silence ends. */
  #passage(): Promise<void> {
    if (!this.#isDropping) return Promise.resolve();
    return new Promise((resolve) => this.#held.push(resolve));
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        resolve();
      }, ms);
      this.#timers.add(timer);
    });
  }
}

/** What one connection's client has sent since the cut now armed was armed. */
class AnswerWatch {
  #watched: Armed | undefined;
  #bytes = 0;
  #text = "";

  constructor(readonly armed: () => Armed | undefined) {}

  sawFromClient(chunk: Buffer): void {
    const armed = this.armed();
    if (armed !== this.#watched) {
      this.#watched = armed;
      this.#bytes = 0;
      this.#text = "";
    }
    if (armed === undefined) return;
    this.#bytes += chunk.length;
    if ("afterClientText" in armed.trigger) this.#text = (this.#text + chunk.toString("latin1")).slice(-65_536);
  }

  isMet(): boolean {
    const armed = this.armed();
    if (armed === undefined || armed !== this.#watched) return false;
    const { trigger } = armed;
    return "afterClientBytes" in trigger ? this.#bytes >= trigger.afterClientBytes : this.#text.includes(trigger.afterClientText);
  }
}
