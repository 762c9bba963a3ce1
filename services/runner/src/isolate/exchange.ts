/**
 * One HTTP exchange between a client of the platform and the project's `fetch`: announced over gRPC, carried by the internal HTTP
 * listener under a ticket that only runner and supervisor know. Bodies are piped in both directions, never held; whoever leaves
 * first cancels the other side.
 */
import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { CodedError } from "iterate/lib";
import { codedError } from "iterate/lib";
import type { Dispatcher } from "undici";
import { exchangeHeaders, fromRunnerHeaders, responseHeaders } from "./exchange-headers.js";
import type { Invocation } from "./invocation.js";
import type { Isolate, Surroundings } from "./isolate.js";
import { projectFailure, type ProjectFailure } from "./project-failure.js";

/** How long an announced exchange is waited for. */
const arrivalMs = 10_000;
// The failure of a throw: message, stack and data of the harness, with escapes.
const failureBytes = 256 * 1024;

export class Exchange {
  readonly ticket = randomBytes(24).toString("base64url");
  readonly #isolate: Isolate;
  readonly #invocation: Invocation;
  readonly #surroundings: Surroundings;
  readonly #settled = Promise.withResolvers<ProjectFailure | undefined>();
  #hasBegun = false;
  #hasBroken = false;

  constructor(isolate: Isolate, invocation: Invocation, surroundings: Surroundings) {
    this.#isolate = isolate;
    this.#invocation = invocation;
    this.#surroundings = surroundings;
  }

  /**
   * Resolves once the response has been sent to its end, with what the code threw if it threw instead of answering.
   * @throws what ended the invocation; CANCELLED when no request arrived in time.
   */
  async done(): Promise<ProjectFailure | undefined> {
    const { signal } = this.#invocation;
    const late = setTimeout(() => {
      if (!this.#hasBegun)
        this.#invocation.end(codedError("CANCELLED", `No HTTP request came for this invocation within ${arrivalMs} ms.`));
    }, arrivalMs);
    const over = Promise.withResolvers<never>();
    const fail = () => over.reject(signal.reason as Error);
    if (signal.aborted) fail();
    else signal.addEventListener("abort", fail, { once: true });
    try {
      const failure = await Promise.race([this.#settled.promise, over.promise]);
      await this.#drain();
      return failure;
    } finally {
      clearTimeout(late);
      signal.removeEventListener("abort", fail);
    }
  }

  /** Answers the request; a second one under the same ticket is refused. Never rejects. */
  async carry(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#hasBegun) return answerFailure(response, codedError("NOT_FOUND", "This invocation has had its request."));
    this.#hasBegun = true;
    const gone = () => {
      // A body that breaks takes the response with it: that is not the client's leaving.
      if (!response.writableFinished && !this.#hasBroken)
        this.#invocation.end(codedError("CANCELLED", "The client of this request went away."));
    };
    response.once("close", gone);
    try {
      const { path, method, headers } = fromRunnerHeaders(request);
      const hasBody = request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined;
      const exchange = { path, method: method, headers, body: hasBody ? request : null };
      const answer = await this.#isolate.request(this.#invocation, "fetch", { ...this.#surroundings }, exchange);
      this.#settled.resolve(await this.#answer(answer, response));
    } catch (thrown) {
      const error = await this.#isolate.failure(this.#invocation, thrown);
      answerFailure(response, error);
      this.#settled.reject(error);
      // Nobody may be waiting for it any more: `done` has then told the reason of the invocation's end.
      this.#settled.promise.catch(() => undefined);
    } finally {
      response.off("close", gone);
    }
  }

  async #answer(answer: Dispatcher.ResponseData, response: ServerResponse): Promise<ProjectFailure | undefined> {
    const outcome = answer.headers[exchangeHeaders.outcome];
    if (outcome === "returned") {
      response.writeHead(answer.statusCode, responseHeaders(answer.headers));
      // The head goes at once: a body that streams may take its time.
      response.flushHeaders();
      answer.body.once("error", () => (this.#hasBroken = true));
      await pipeline(answer.body, response);
      return undefined;
    }
    if (outcome !== "threw") throw codedError("ISOLATE_OUTPUT", "The process answered a request without saying how it went.");
    const failure = projectFailure(await limitedBody(answer, failureBytes));
    answerFailure(response, failure.error);
    return failure;
  }

  // The records of the exchange are here once a request made after it has been answered.
  async #drain(): Promise<void> {
    try {
      const answer = await this.#isolate.request(this.#invocation, "drain", { ...this.#surroundings });
      await answer.body.dump();
      await this.#isolate.drained(this.#invocation);
    } catch {
      // The invocation is over all the same.
    }
  }
}

/** A failure in place of the project's response: marked, so that no response of a project passes for one. */
export function answerFailure(response: ServerResponse, error: CodedError): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  const body = JSON.stringify({ code: error.code, message: error.message, data: error.data });
  response.writeHead(502, { "content-type": "application/json", [exchangeHeaders.outcome]: "failed" }).end(body);
}

async function limitedBody(answer: Dispatcher.ResponseData, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw codedError("ISOLATE_OUTPUT", `A failure has more than ${maxBytes} bytes.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
