/** The internal HTTP listener: git's smart protocol for ingress, which has authenticated the person. Bodies are never buffered. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Caller, MethodPolicy } from "@iterate-platform/service/caller";
import type { Log } from "@iterate-platform/service/log";
import { currentTraceparent } from "@iterate-platform/service/tracing";
import { codedError, errorCode, errorCodes, isCodedError } from "iterate/lib";
import type { JobQueue } from "../build/job-queue.js";
import type { GitService } from "../repo/smart-http.js";
import type { SmartHttp } from "../repo/smart-http.js";
import type { RepoCache } from "../repo/repo-cache.js";
import type { RepoName } from "../repo/contract.js";

export interface GitHttpParts {
  readonly repos: RepoCache;
  readonly smartHttp: SmartHttp;
  /** Bounds the git processes of this pod. */
  readonly queue: JobQueue;
  /** Proves and admits the caller. Throws UNAUTHENTICATED or FORBIDDEN. */
  readonly authenticate: (request: IncomingMessage) => Promise<Caller>;
  readonly log: Log;
}

/** Who may use git here: ingress, which speaks for a person. */
export const gitPolicy: MethodPolicy = { services: ["ingress"], execution: "refused" };

export interface GitRoute {
  readonly name: RepoName;
  readonly service: GitService;
  readonly what: "refs" | "service";
}

/**
 * `/git/<owner>/<path, URL-encoded>/info/refs?service=…` and `…/git-upload-pack` or `…/git-receive-pack`; undefined for anything
 * else, the files of git's older protocol among it.
 */
export function parseGitRoute(method: string, url: string): GitRoute | undefined {
  const [pathname, query = ""] = url.split("?", 2);
  const match = /^\/git\/([^/]+)\/([^/]+)\/(info\/refs|git-upload-pack|git-receive-pack)$/.exec(pathname!);
  if (match === null) return undefined;
  const [, owner, encoded, rest] = match;
  const what = rest === "info/refs" ? "refs" : "service";
  const service = what === "refs" ? new URLSearchParams(query).get("service") : rest;
  if (service !== "git-upload-pack" && service !== "git-receive-pack") return undefined;
  if (method !== (what === "refs" ? "GET" : "POST")) return undefined;
  try {
    return { name: { owner: decodeURIComponent(owner!), path: decodeURIComponent(encoded!) }, service, what };
  } catch {
    return undefined;
  }
}

export class GitHttp {
  readonly #parts: GitHttpParts;

  constructor(parts: GitHttpParts) {
    this.#parts = parts;
  }

  readonly handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const away = new AbortController();
    response.once("close", () => away.abort());
    try {
      await this.#serve(request, response, away.signal);
    } catch (error) {
      refuse(response, error, this.#parts.log);
    }
  };

  async #serve(request: IncomingMessage, response: ServerResponse, signal: AbortSignal): Promise<void> {
    const { repos, smartHttp, queue, authenticate } = this.#parts;
    const caller = await authenticate(request);
    const route = parseGitRoute(request.method ?? "", request.url ?? "");
    if (route === undefined)
      throw codedError(
        "NOT_A_METHOD",
        "this address serves git's smart protocol alone; use a git client of version 1.6.6 or newer",
      );
    await queue.run(signal, async () => {
      // A repository comes to be with its first push; until then it is empty.
      const bare = await repos.make(route.name);
      await smartHttp.serve(
        {
          bare,
          service: route.service,
          what: route.what,
          pusher: caller.principal,
          traceparent: currentTraceparent() || undefined,
        },
        request,
        response,
      );
    });
  }
}

/** git shows the text of a failed request to the person, so it is the message; a started answer can only be cut. */
function refuse(response: ServerResponse, error: unknown, log: Log): void {
  const code = errorCode(error);
  const { http, kind } = errorCodes[code];
  if (kind === "failed") log.error("a git request failed", { error });
  if (response.headersSent || response.destroyed) return void response.destroy();
  const retryAfterMs = isCodedError(error) ? error.retryAfterMs : undefined;
  response.writeHead(http, {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-cache",
    connection: "close",
    ...(kind === "unavailable" || kind === "overloaded" ? { "retry-after": String(Math.ceil((retryAfterMs ?? 1000) / 1000)) } : {}),
  });
  response.end(`${code}: ${kind === "failed" || !(error instanceof Error) ? errorCodes[code].description : error.message}\n`);
}
