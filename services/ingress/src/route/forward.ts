/**
 * Hands one HTTP exchange to another service of the platform: bodies stream both ways with back-pressure, a side that leaves cancels the
 * other, and nothing is buffered. What cannot be reached is UNAVAILABLE; an answer that broke off half way is cut, never ended as if whole.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { CodedError } from "iterate/lib";
import { Agent, errors, type Dispatcher } from "undici";
import { headersForCode, headersFromCode, type RequestHeaderRules } from "./headers.js";

export interface ForwardOptions {
  /** Where the service listens for bodies, for example `http://127.0.0.1:7441`. */
  readonly origin: string;
  /** Path and query there. */
  readonly path: string;
  /** Headers the platform adds. */
  readonly headers: Readonly<Record<string, string>>;
  readonly rules: RequestHeaderRules;
  /** Milliseconds until the first byte of an answer, and between two pieces of it. */
  readonly idleTimeoutMs: number;
  /** Further headers of the answer to the outside. */
  readonly answerHeaders?: Readonly<Record<string, string>>;
}

/** Connections to services, kept open between exchanges. */
export function createForwarder(): Forwarder {
  return new Forwarder(new Agent({ connections: 256, pipelining: 1, connectTimeout: 2_000, keepAliveTimeout: 10_000 }));
}

export class Forwarder {
  readonly #agent: Agent;

  constructor(agent: Agent) {
    this.#agent = agent;
  }

  /** Resolves when the answer is complete or its reader has left. Throws before anything is answered: UNAVAILABLE, INVALID_INPUT. */
  async forward(request: IncomingMessage, response: ServerResponse, options: ForwardOptions): Promise<void> {
    const left = new AbortController();
    response.once("close", () => left.abort());
    const headers = [...headersForCode(request.rawHeaders, options.rules), ...Object.entries(options.headers).flat()];
    const answer = await this.#send(request, headers, options, left.signal);
    try {
      response.writeHead(answer.statusCode, { ...headersFromCode(answer.headers, options.rules), ...options.answerHeaders });
      await pipeline(answer.body, response);
    } catch {
      // Too late for another status: the connection is cut so that nobody takes a part for the whole.
      answer.body.destroy();
      response.destroy();
    }
  }

  close(): Promise<void> {
    return this.#agent.close();
  }

  async #send(
    request: IncomingMessage,
    headers: string[],
    options: ForwardOptions,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    const hasBody = request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined;
    try {
      return await this.#agent.request({
        origin: options.origin,
        path: options.path,
        method: request.method ?? "GET",
        headers,
        body: hasBody ? request : null,
        signal,
        headersTimeout: options.idleTimeoutMs,
        bodyTimeout: options.idleTimeoutMs,
      });
    } catch (error) {
      if (signal.aborted) throw new CodedError("CANCELLED", "the client went away", { cause: error });
      const isSlow = error instanceof errors.HeadersTimeoutError;
      throw new CodedError(
        "UNAVAILABLE",
        isSlow ? `no answer came within ${options.idleTimeoutMs} ms` : "the service behind this address is away",
        {
          cause: error,
          retryAfterMs: 1_000,
        },
      );
    }
  }
}
