/**
 * An HTTP listener as every service runs it: bounded headers, bodies and patience with slow clients, problem details for whatever is
 * thrown, a signal that aborts when the client leaves, and a drain that finishes what is in flight.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { CodedError, codedError, errorCodes } from "iterate/lib";
import { authorize, type Caller, type MethodPolicy } from "./caller.js";
import type { ListenAddress } from "./config.js";
import type { Log } from "./log.js";
import { sendProblem } from "./problem.js";
import { answerFor } from "./status.js";
import { adoptForeignTrace, linkForeignTrace } from "./foreign-trace.js";
import type { Trust } from "./trust.js";

export interface HttpCall {
  /** Aborts with CANCELLED when the client is gone before its answer, with UNAVAILABLE at the end of a drain. */
  readonly signal: AbortSignal;
}

export type HttpHandler = (request: IncomingMessage, response: ServerResponse, call: HttpCall) => void | Promise<void>;
export type UpgradeHandler = (request: IncomingMessage, socket: Duplex, head: Buffer) => void | Promise<void>;

export interface HttpServerOptions {
  /** Service name, for messages. */
  readonly name: string;
  readonly listen: ListenAddress;
  readonly log: Log;
  readonly handler: HttpHandler;
  /** Takes a connection over (WebSocket); without it upgrades are refused. What it throws is answered as a status line. */
  readonly onUpgrade?: UpgradeHandler;
  /** A `traceparent` from outside is linked, never a parent: for listeners that strangers reach. */
  readonly foreignTraces?: boolean;
  /** Largest header block, bytes. Default 16 KiB. */
  readonly maxHeaderBytes?: number;
  /** Bound of receiving the header block, ms. Default 10,000. */
  readonly headersTimeoutMs?: number;
  /** Bound of receiving a whole request, body included, ms; 0 for none, where bodies are streams. Default 60,000. */
  readonly requestTimeoutMs?: number;
  /** Connections at a time; more are closed at once. Default 10,000. */
  readonly maxConnections?: number;
  /** Says what an error of a library means; undefined leaves it a fault of the platform. */
  readonly classify?: (thrown: unknown) => CodedError | undefined;
}

export interface HttpServer {
  /** Binds and serves; resolves to the port. Throws UNAVAILABLE naming the variable when the address cannot be bound. */
  start(): Promise<number>;
  /** Takes no new connection, lets requests finish for `boundMs`, then cuts them. Resolves to the number cut. Idempotent. */
  drain(boundMs: number): Promise<number>;
  /** Requests open now, upgraded connections among them. */
  readonly inFlight: number;
}

const defaults = { maxHeaderBytes: 16_384, headersTimeoutMs: 10_000, requestTimeoutMs: 60_000, maxConnections: 10_000 };
/** Idle connections are kept longer than the 60 s of common load balancers, so that it is they who close. */
const keepAliveTimeoutMs = 65_000;
const timeoutCheckMs = 1_000;
const maxHeaders = 100;

export function createHttpServer(options: HttpServerOptions): HttpServer {
  return new HttpServerImplementation({ ...defaults, ...options });
}

/** Proves and admits the caller of an internal request. Throws UNAUTHENTICATED or FORBIDDEN. */
export async function httpAuth(request: IncomingMessage, trust: Trust, policy: MethodPolicy): Promise<Caller> {
  const caller = await trust.authenticate((name) => {
    const value = request.headers[name];
    return typeof value === "string" ? value : undefined;
  });
  authorize(`${request.method} ${(request.url ?? "/").split("?")[0]}`, policy, caller);
  return caller;
}

/** The whole body. Throws BATCH_TOO_LARGE as soon as it is known to be over `maxBytes`, CANCELLED when the client leaves before its end. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > maxBytes) throw tooLarge(declared, maxBytes);
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    // Left early, the rest stays unread: the server decides what becomes of it.
    for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw tooLarge(bytes, maxBytes);
      chunks.push(chunk);
    }
  } catch (error) {
    throw request.destroyed && !(error instanceof CodedError)
      ? codedError("CANCELLED", "the client left before the end of its body")
      : error;
  }
  return Buffer.concat(chunks, bytes);
}

/** Most of an unwanted body that is read away, and for how long, so that its sender gets to see the answer. */
const maxDiscardedBytes = 64 * 1_048_576;
const maxDiscardMs = 10_000;

/** Closing while the client still sends would reset the connection, and the answer would be lost with it. */
function discard(request: IncomingMessage): void {
  // Held here: a client library that was given the request as a body takes its socket away when it gives up on it.
  const socket = request.socket as Socket | null;
  const cut = (): void => void socket?.destroy();
  const timer = setTimeout(cut, maxDiscardMs);
  timer.unref();
  let bytes = 0;
  request.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxDiscardedBytes) cut();
  });
  request.once("close", () => clearTimeout(timer));
  request.on("error", cut);
}

function tooLarge(bytes: number, limit: number): CodedError {
  return codedError("BATCH_TOO_LARGE", `a body of ${bytes} bytes or more is over the limit of ${limit}`, { bytes, limit });
}

class HttpServerImplementation implements HttpServer {
  readonly #options: HttpServerOptions & typeof defaults;
  readonly #server: Server;
  readonly #open = new Set<(reason: CodedError) => void>();
  #drain: Promise<number> | null = null;

  constructor(options: HttpServerOptions & typeof defaults) {
    this.#options = options;
    this.#server = createServer(
      {
        maxHeaderSize: options.maxHeaderBytes,
        headersTimeout: options.headersTimeoutMs,
        requestTimeout: options.requestTimeoutMs,
        keepAliveTimeout: keepAliveTimeoutMs,
        connectionsCheckingInterval: timeoutCheckMs,
        requireHostHeader: true,
      },
      (request, response) => this.#serve(request, response),
    );
    this.#server.maxHeadersCount = maxHeaders;
    this.#server.maxConnections = options.maxConnections;
    if (options.foreignTraces === true) adoptForeignTrace(this.#server);
    this.#server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
  }

  get inFlight(): number {
    return this.#open.size;
  }

  start(): Promise<number> {
    const { name, listen } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once("error", (error) => {
        reject(
          codedError(
            "UNAVAILABLE",
            `${name} cannot listen on ${listen.variable}=${listen.host}:${listen.port} (${error.message}); free the port or set ${listen.variable}`,
            { variable: listen.variable },
          ),
        );
      });
      this.#server.listen(listen.port, listen.host, () => resolve((this.#server.address() as AddressInfo).port));
    });
  }

  drain(boundMs: number): Promise<number> {
    this.#drain ??= this.#drainNow(boundMs);
    return this.#drain;
  }

  async #drainNow(boundMs: number): Promise<number> {
    if (!this.#server.listening) return 0;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    let forced = 0;
    const timer = setTimeout(() => {
      forced = this.#open.size;
      for (const cut of [...this.#open])
        cut(codedError("UNAVAILABLE", "the server stopped before the request was finished; retry with the same ids"));
      setImmediate(() => this.#server.closeAllConnections());
    }, boundMs);
    await closed;
    clearTimeout(timer);
    return forced;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const controller = new AbortController();
    const cut = (reason: CodedError): void => {
      controller.abort(reason);
      if (!response.writableEnded) sendProblem(response, reason);
    };
    this.#open.add(cut);
    response.once("close", () => {
      this.#open.delete(cut);
      if (!response.writableFinished) controller.abort(codedError("CANCELLED", "the client went away"));
    });
    // A draining server finishes this answer and closes the connection.
    if (this.#drain !== null) response.setHeader("connection", "close");
    if (this.#options.foreignTraces === true) linkForeignTrace(request);
    this.#run(request, response, controller.signal).catch((thrown: unknown) =>
      this.#options.log.error("request failed after its answer", { error: thrown }),
    );
  }

  async #run(request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.handler(request, response, { signal });
    } catch (thrown) {
      if (signal.aborted) return;
      sendProblem(response, this.#answerFor(thrown, request));
      if (!request.complete) discard(request);
    }
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const refuse = (error: CodedError): void => {
      const { http } = errorCodes[error.code];
      if (socket.writable) socket.end(`HTTP/1.1 ${http} ${error.code}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
    };
    socket.on("error", () => socket.destroy());
    if (this.#options.onUpgrade === undefined) return refuse(codedError("NOT_FOUND", "this listener upgrades no connection"));
    if (this.#drain !== null) return refuse(codedError("UNAVAILABLE", "the server is draining"));
    const cut = (): void => void socket.destroy();
    this.#open.add(cut);
    socket.once("close", () => this.#open.delete(cut));
    if (this.#options.foreignTraces === true) linkForeignTrace(request);
    Promise.resolve()
      .then(() => this.#options.onUpgrade!(request, socket, head))
      .catch((thrown: unknown) => refuse(this.#answerFor(thrown, request)));
  }

  #answerFor(thrown: unknown, request: IncomingMessage): CodedError {
    return answerFor(this.#options.classify?.(thrown) ?? thrown, this.#options.log, {
      method: request.method,
      path: (request.url ?? "").split("?")[0],
    });
  }
}
