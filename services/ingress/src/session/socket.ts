/**
 * The WebSocket of `/api`. A socket that does not authenticate in time, or whose peer is gone, is ended; a drain closes all with 1012 so
 * that clients come back to another pod.
 */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { newWebSocketRpcSession } from "capnweb";
import { WebSocketServer, type WebSocket } from "ws";
import { codedError, isCodedError } from "iterate/lib";
import type { AdminToken } from "../identity/admin-token.js";
import { errorForClient } from "./api-target.js";
import { UnauthenticatedApi } from "./session.js";
import type { SessionParts } from "./session-scope.js";

/** Sockets one pod holds. */
export const maxSockets = 5000;
/** Largest message: an append of 16 MiB and what Cap'n Web adds. */
export const maxMessageBytes = 17 * 1024 * 1024;
export const authenticateWithinMs = 15_000;
export const heartbeatMs = 20_000;

const tryAgainLater = 1013;
const serviceRestart = 1012;
const policyViolation = 1008;

export interface SessionSocketsOptions {
  readonly parts: SessionParts;
  readonly adminToken: AdminToken;
  /** Origin that pages may connect from; programs send none. */
  readonly origin: string;
  /** Logs a fault and answers what a client may quote. */
  readonly report: (error: unknown) => string;
  readonly maxSockets?: number;
  readonly authenticateWithinMs?: number;
  readonly heartbeatMs?: number;
}

export class SessionSockets {
  readonly #options: SessionSocketsOptions;
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: maxMessageBytes,
    perMessageDeflate: false,
    clientTracking: true,
  });
  readonly #heartbeat: NodeJS.Timeout;
  readonly #alive = new WeakSet<WebSocket>();

  constructor(options: SessionSocketsOptions) {
    this.#options = options;
    this.#heartbeat = setInterval(() => this.#beat(), options.heartbeatMs ?? heartbeatMs);
    this.#heartbeat.unref();
  }

  /** Sockets held now. */
  get size(): number {
    return this.#server.clients.size;
  }

  /** Takes an upgrade of `/api`, or refuses it with 403 for a page of another origin. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { origin } = request.headers;
    if (origin !== undefined && origin !== this.#options.origin) {
      socket.end("HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
      return;
    }
    this.#server.handleUpgrade(request, socket, head, (client) => this.#open(client));
  }

  /** Ends every socket; clients are told to come back. */
  close(): void {
    clearInterval(this.#heartbeat);
    for (const client of this.#server.clients) client.close(serviceRestart, "the service restarts");
    this.#server.close();
  }

  #open(client: WebSocket): void {
    if (this.size > (this.#options.maxSockets ?? maxSockets)) {
      client.close(tryAgainLater, "too many connections; try again later");
      return;
    }
    const gone = new AbortController();
    const impatience = setTimeout(
      () => client.close(policyViolation, "call authenticate first"),
      this.#options.authenticateWithinMs ?? authenticateWithinMs,
    );
    impatience.unref();
    client.once("close", () => {
      clearTimeout(impatience);
      gone.abort();
    });
    client.on("error", () => client.terminate());
    client.on("pong", () => this.#alive.add(client));
    this.#alive.add(client);
    let isStranger = true;
    const api = new UnauthenticatedApi(this.#options.parts, this.#options.adminToken, gone.signal, () => {
      isStranger = false;
      clearTimeout(impatience);
    });
    newWebSocketRpcSession(client as unknown as globalThis.WebSocket, api, {
      onSendError: (error) => {
        // Once the peer is gone, what is left to say is that it is gone.
        if (gone.signal.aborted) return undefined;
        // Before authentication all that fails without a code is the peer's own protocol: no stranger fills the log with faults.
        return errorForClient(isStranger && !isCodedError(error) ? notTheProtocol() : error, this.#options.report);
      },
      limits: { maxMessageSize: maxMessageBytes },
    });
  }

  #beat(): void {
    for (const client of this.#server.clients) {
      if (!this.#alive.delete(client)) client.terminate();
      else client.ping();
    }
  }
}

function notTheProtocol(): Error {
  return codedError("INVALID_INPUT", "what was sent is not the protocol of /api; connect with the package iterate, iterate/node");
}
