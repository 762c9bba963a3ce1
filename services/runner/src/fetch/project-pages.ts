/**
 * Hands HTTP requests to the published code of a project. Bodies stream both ways and are never held; whoever leaves first cancels the
 * other side.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import type { HttpCall } from "@iterate-platform/service/http-server";
import type { Log } from "@iterate-platform/service/log";
import { currentTraceparent } from "@iterate-platform/service/tracing";
import { CodedError, codedError, errorCode, isCodedError } from "iterate/lib";
import type { ExecutionScope } from "../delivery/batch.js";
import type { FairTurns } from "../delivery/fair-turns.js";
import type { IsolatePool } from "../isolate/client.js";
import { recordCodeLog } from "../itx/code-log.js";
import { ItxHost, maxHostCalls, type ItxHostParts } from "../itx/host.js";
import type { PublishedCode } from "../processors/published-code.js";
import type { RequestClaims } from "./contract.js";
import { projectAddress, projectHeaders } from "./project-url.js";
import { whyUnpublished } from "./unpublished.js";

export interface ProjectPagesParts {
  readonly code: PublishedCode;
  readonly isolates: Pick<IsolatePool, "fetch">;
  readonly itx: ItxHostParts;
  readonly requests: RequestClaims;
  /** Requests in the project's code at once, in all and for one project. */
  readonly turns: FairTurns;
  readonly report: Log;
  readonly newInvocationId: () => string;
  /** Longest request. */
  readonly deadlineMs: number;
}

export class ProjectPages {
  readonly #parts: ProjectPagesParts;

  constructor(parts: ProjectPagesParts) {
    this.#parts = parts;
  }

  /** @throws NOT_FOUND when nothing is published; UNAVAILABLE when it cannot be reached now; what the code failed with, without its text. */
  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    principal: string | undefined,
    { signal }: HttpCall,
  ): Promise<void> {
    const { owner, url } = projectAddress(request);
    const pointer = await this.#parts.code.pointer(owner, signal);
    if (pointer === null) throw codedError("NOT_FOUND", await whyUnpublished(this.#parts.itx.log, owner, signal));
    if (pointer.mainModule === "")
      throw codedError("NOT_FOUND", "this project has published no page: its iterate.toml names no `main` under [project]");
    const claims = await this.#parts.requests.claims(owner, `config@${pointer.digest}`, principal);
    let token: Promise<string> | undefined;
    const traceparent = currentTraceparent();
    const scope: ExecutionScope = { claims, traceparent, signal, execution: () => (token ??= this.#parts.requests.mint(claims)) };
    const record = recordCodeLog(this.#parts.report, { owner, context: "/", subscription: "fetch", traceparent });
    const host = new ItxHost(this.#parts.itx, { scope, delivery: null, record });
    const release = await this.#parts.turns.take(owner, signal);
    try {
      const invocation = {
        bundle: this.#parts.code.bundle(owner, pointer),
        invocationId: this.#parts.newInvocationId(),
        contextPath: "/",
        callerPath: "/",
        deadlineMs: this.#parts.deadlineMs,
        maxHostCalls,
        signal,
        ...(traceparent === "" ? {} : { traceparent }),
      };
      const hasBody = request.headers["content-length"] !== undefined || request.headers["transfer-encoding"] !== undefined;
      const answer = await this.#parts.isolates.fetch(
        invocation,
        { method: request.method ?? "GET", url, headers: projectHeaders(request), body: hasBody ? request : null },
        host,
      );
      response.writeHead(answer.status, answer.headers.flat());
      response.flushHeaders();
      await Promise.all([pipeline(answer.body, response), answer.done]);
    } catch (error) {
      if (signal.aborted) return;
      this.#tell(owner, url, error);
      throw forVisitor(error);
    } finally {
      release();
    }
  }

  #tell(owner: string, url: string, error: unknown): void {
    const { pathname } = new URL(url);
    const stack = isCodedError(error) ? error.data["stack"] : undefined;
    const reason = error instanceof Error ? error.message : String(error);
    this.#parts.report.warn("a project's page failed", {
      owner,
      context: "/",
      subscription: "fetch",
      pathname,
      code: errorCode(error),
      reason,
      ...(typeof stack === "string" ? { stack } : {}),
    });
  }
}

/** A visitor learns the code, not what the project's own text gives away. */
function forVisitor(error: unknown): unknown {
  if (!isCodedError(error)) return error;
  const options = error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs };
  if (error.retryable) return new CodedError(error.code, "the project cannot answer right now; try again", options);
  return new CodedError(
    error.code,
    "the project's code could not answer this request; `iterate logs` says why to who works on it",
    options,
  );
}
