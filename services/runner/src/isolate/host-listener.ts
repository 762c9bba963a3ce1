/**
 * The socket that a process's host calls arrive at. Only a WebSocket that workerd itself stamped with this process's token, for an
 * invocation open in this process that has no session yet, is taken; everything on it is hostile input.
 */
import { timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Duplex } from "node:stream";
import { codedError } from "iterate/lib";
import { WebSocketServer, type WebSocket } from "ws";
import type { HostReply, HostSession, Invocation } from "./invocation.js";
import type { IsolateLimits } from "./limits.js";

export interface HostListenerOptions {
  readonly token: string;
  readonly limits: IsolateLimits;
  /** The invocation open in this process under a secret. */
  readonly invocation: (secret: string) => Invocation | undefined;
}

/** Not yet listening: the caller chooses the path and closes it. */
export function hostListener({ token, limits, invocation }: HostListenerOptions): Server {
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: limits.hostCallBytes + headBytes });
  const server = createServer((_request, response) => response.writeHead(426).end("Host calls travel over a WebSocket."));
  const expected = Buffer.from(`Bearer ${token}`);
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    const given = Buffer.from(request.headers.authorization ?? "");
    if (given.byteLength !== expected.byteLength || !timingSafeEqual(given, expected))
      return refuse(socket, "This session does not come from the process it claims.");
    const found = invocation(String(request.headers["x-iterate-invocation"] ?? ""));
    if (found === undefined) return refuse(socket, "The invocation is over, or never was: its itx takes no calls.");
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      const session = new HostSessionServer(webSocket, found, limits);
      if (!found.open(session)) session.close("The invocation has its session already, or is over.");
    });
  });
  return server;
}

function refuse(socket: Duplex, message: string): void {
  socket.end(
    `HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\ncontent-length: ${Buffer.byteLength(message)}\r\nconnection: close\r\n\r\n${message}`,
  );
}

// The head of a message: a number, a method and a path of at most 1,024 bytes, with JSON escapes.
const headBytes = 8 * 1024;
const newline = 0x0a;

class HostSessionServer implements HostSession {
  readonly #socket: WebSocket;
  readonly #invocation: Invocation;
  readonly #limits: IsolateLimits;

  constructor(socket: WebSocket, invocation: Invocation, limits: IsolateLimits) {
    this.#socket = socket;
    this.#invocation = invocation;
    this.#limits = limits;
    socket.on("message", (data: Buffer) => this.#take(data));
    // A message over the bound, or one that is no UTF-8: ws closes the socket by itself.
    socket.on("error", (error) =>
      invocation.end(codedError("ISOLATE_OUTPUT", `A host call was not well-formed: ${error.message}`)),
    );
  }

  close(reason: string): void {
    this.#socket.close(
      4000,
      Buffer.from(reason)
        .subarray(0, 120)
        .toString()
        .replace(/\uFFFD$/, ""),
    );
    // A peer that never answers the close must not keep the socket.
    setTimeout(() => this.#socket.terminate(), 1_000).unref();
  }

  #take(data: Buffer): void {
    const split = data.subarray(0, headBytes).indexOf(newline);
    const head = split === -1 ? undefined : parseHead(data.toString("utf8", 0, split));
    if (head === undefined) return this.#invocation.end(codedError("ISOLATE_OUTPUT", "A host call has no well-formed head."));
    const args = data.subarray(split + 1);
    if (args.byteLength > this.#limits.hostCallBytes) {
      return this.#invocation.end(
        codedError("ISOLATE_OUTPUT", `A host call has ${args.byteLength} bytes; at most ${this.#limits.hostCallBytes} are taken.`),
      );
    }
    this.#invocation.hostCall({ method: head.method, path: head.path, args }, (reply) => this.#answer(head.id, reply));
    if (this.#invocation.unanswered >= this.#limits.hostCallsInFlight) this.#socket.pause();
  }

  /** `id` is what the isolate calls its call. */
  #answer(id: number, { succeeded, body }: HostReply): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    this.#socket.send(Buffer.concat([Buffer.from(`${JSON.stringify([id, succeeded])}\n`), body]), { binary: false });
    if (this.#socket.isPaused && this.#invocation.unanswered < this.#limits.hostCallsInFlight) this.#socket.resume();
  }
}

function parseHead(text: string): { id: number; method: string; path: string } | undefined {
  try {
    const head: unknown = JSON.parse(text);
    if (!Array.isArray(head) || head.length !== 3) return undefined;
    const [id, method, path] = head as [unknown, unknown, unknown];
    if (!Number.isSafeInteger(id) || typeof method !== "string" || typeof path !== "string") return undefined;
    return method.length <= 100 && Buffer.byteLength(path) <= 1_024 ? { id: id as number, method, path } : undefined;
  } catch {
    return undefined;
  }
}
