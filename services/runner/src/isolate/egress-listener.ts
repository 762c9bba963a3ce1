/**
 * The socket that everything a process sends to a network arrives at: `fetch`, `connect`, `node:net`, `node:http`, `node:dns` and
 * WebSockets alike. No destination is allowed, so each attempt is refused with a sentence and recorded; nothing is ever dialled.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Duplex } from "node:stream";
import type { LogRecord } from "./log-record.js";

/** Receives the record of each refusal, and the number of the invocation when the request carries one. */
export type EgressObserver = (record: LogRecord, ordinal: number | undefined) => void;

const status = "HTTP/1.1 403 Forbidden";

/** Not yet listening: the caller chooses the path and closes it. */
export function egressListener(observe: EgressObserver): Server {
  const refusal = (request: IncomingMessage): string => {
    const destination = destinationOf(request);
    const message = `EGRESS_DENIED: this project's code may not reach ${destination}; no network destination is allowed.`;
    const ordinal = Number(request.headers["x-iterate-ordinal"]);
    observe({ level: "warn", message, atUs: Date.now() * 1_000 }, Number.isSafeInteger(ordinal) ? ordinal : undefined);
    return message;
  };
  // Requests in the style of a proxy carry no Host header.
  const server = createServer({ requireHostHeader: false }, (request, response) => {
    const message = refusal(request);
    response
      .writeHead(403, { "content-type": "text/plain; charset=utf-8", "x-iterate-error": "EGRESS_DENIED", connection: "close" })
      .end(message);
    request.resume();
  });
  const refuseSocket = (request: IncomingMessage, socket: Duplex): void => {
    socket.on("error", () => socket.destroy());
    const message = refusal(request);
    socket.end(
      `${status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(message)}\r\nconnection: close\r\n\r\n${message}`,
    );
  };
  return server.on("connect", refuseSocket).on("upgrade", refuseSocket);
}

/** Scheme, host and port, without path and query: those may hold a secret. */
function destinationOf(request: IncomingMessage): string {
  const target = request.method === "CONNECT" ? `tcp://${request.url ?? ""}` : (request.url ?? "");
  try {
    const { protocol, host } = new URL(target);
    return `${protocol}//${host}`.slice(0, 300);
  } catch {
    return "an address that is not well-formed";
  }
}
