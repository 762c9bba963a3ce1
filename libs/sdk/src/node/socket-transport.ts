/** Cap'n Web messages over a WebSocket of `ws`, with a heartbeat: a peer that went silent is found out, and every loss has a code. */
import type { RpcTransport } from "capnweb";
import type { WebSocket } from "ws";
import { CodedError, codedError } from "../lib/coded-error.js";

/** A ping is sent this often; a peer that answered none of it by the next one is gone. Long enough for a slow link, short for a person. */
export const heartbeatMs = 15_000;

export class SocketTransport implements RpcTransport {
  /** Resolves with the reason when the connection is gone, whoever ended it. */
  readonly closed: Promise<CodedError>;
  readonly #socket: WebSocket;
  readonly #arrived: string[] = [];
  readonly #heartbeat: NodeJS.Timeout;
  readonly #onClosed: (reason: CodedError) => void;
  #receiver: { resolve: (message: string) => void; reject: (reason: Error) => void } | null = null;
  #reason: CodedError | null = null;
  #isAlive = true;

  /** `socket` is open; `peer` names the other side in errors. */
  constructor(socket: WebSocket, peer: string, beatMs = heartbeatMs) {
    this.#socket = socket;
    const { promise, resolve } = Promise.withResolvers<CodedError>();
    this.closed = promise;
    this.#onClosed = resolve;
    this.#heartbeat = setInterval(() => this.#beat(), beatMs);
    socket.on("pong", () => (this.#isAlive = true));
    socket.on("message", (data: Buffer) => this.#arrive(data.toString()));
    socket.on("error", (error) => this.#end(lost(peer, error.message)));
    socket.on("close", (code, reason) =>
      this.#end(lost(peer, `close code ${code}${reason.length === 0 ? "" : `, ${reason.toString()}`}`)),
    );
  }

  send(message: string): void {
    // A send on a closed socket is reported by `receive`; nothing waits for its callback.
    this.#socket.send(message, () => undefined);
  }

  receive(): Promise<string> {
    const message = this.#arrived.shift();
    if (message !== undefined) return Promise.resolve(message);
    if (this.#reason !== null) return Promise.reject(this.#reason);
    return new Promise((resolve, reject) => (this.#receiver = { resolve, reject }));
  }

  /** Called by Cap'n Web when the session is over for it. */
  abort(reason: unknown): void {
    this.#end(codedError("CANCELLED", `the connection was closed: ${reason instanceof Error ? reason.message : String(reason)}`));
    this.#socket.close(3000);
  }

  #arrive(message: string): void {
    this.#isAlive = true;
    if (this.#receiver === null) this.#arrived.push(message);
    else this.#receiver.resolve(message);
    this.#receiver = null;
  }

  #beat(): void {
    if (!this.#isAlive) return this.#socket.terminate();
    this.#isAlive = false;
    this.#socket.ping();
  }

  #end(reason: CodedError): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    clearInterval(this.#heartbeat);
    this.#receiver?.reject(reason);
    this.#receiver = null;
    this.#onClosed(reason);
  }
}

function lost(peer: string, detail: string): CodedError {
  return new CodedError("UNAVAILABLE", `the connection to ${peer} was lost (${detail})`, { data: { peer } });
}
