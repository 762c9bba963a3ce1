/**
 * git's smart HTTP protocol: each request runs `git http-backend` on the repository, both bodies streamed as they come. A push is
 * decided by the acceptance while git holds it in quarantine.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { uuidv7 } from "@iterate-platform/service/ids";
import type { Log } from "@iterate-platform/service/log";
import { codedError, isCodedError } from "iterate/lib";
import type { Acceptance } from "./acceptance.js";
import type { BareRepo } from "./bare-repo.js";
import { collectText, endGroup, exitOf, type Git } from "./git.js";
import { receiptOf } from "./receipt.js";
import { answerReceive, readReceiveRequest } from "./receive-hook.js";

export type GitService = "git-upload-pack" | "git-receive-pack";

export interface GitExchange {
  readonly bare: BareRepo;
  readonly service: GitService;
  /** What is asked: the list of refs, or the service itself. */
  readonly what: "refs" | "service";
  readonly pusher: string | undefined;
  readonly traceparent: string | undefined;
}

export interface SmartHttpParts {
  readonly git: Git;
  readonly acceptance: Acceptance;
  readonly hooksPath: string;
  readonly maxPackBytes: number;
  /** Bound of one request, ms; a clone or push that takes longer is ended. */
  readonly deadlineMs: number;
  readonly log: Log;
}

/** Head of the answer of `git http-backend`; it is a few hundred bytes. */
const maxHeadBytes = 16_384;

export class SmartHttp {
  readonly #parts: SmartHttpParts;

  constructor(parts: SmartHttpParts) {
    this.#parts = parts;
  }

  /** Answers one request. Resolves when the answer is sent and git is gone; rejects when nothing was sent yet and it cannot be. */
  async serve(exchange: GitExchange, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { git, hooksPath, maxPackBytes, deadlineMs, log } = this.#parts;
    const isPush = exchange.service === "git-receive-pack";
    const child = git.spawn(
      ["http-backend"],
      cgiEnv(exchange, request),
      ["pipe", "pipe", "pipe", "pipe", "pipe"],
      [
        ["core.hooksPath", isPush ? hooksPath : "/dev/null"],
        ["receive.maxInputSize", String(maxPackBytes)],
      ],
    );
    const end = (): void => endGroup(child);
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      end();
    }, deadlineMs);
    response.once("close", end);
    const exit = exitOf(child);
    const stderr = collectText(child);
    const [, , , asks, verdict] = child.stdio as [Writable, Readable, Readable, Readable, Writable];
    let moved: (() => void) | undefined;
    const decided = isPush ? this.#decide(exchange, asks, verdict).then((accepted) => (moved = accepted)) : Promise.resolve();
    try {
      // git may answer, or refuse, before it has read all.
      const sent = pipeline(request, child.stdin!).catch(() => undefined);
      const body = await readHead(child.stdout!, response).catch((error: unknown) => {
        throw isLate ? codedError("DEADLINE_EXCEEDED", `git did not answer within ${deadlineMs} ms`) : error;
      });
      // A client that leaves ends git by the listener above; what it has got it keeps.
      await pipeline(body, response, { end: false }).catch(() => undefined);
      const code = await exit;
      // An answer that was cut short must not look whole.
      if (code === null) response.destroy();
      else response.end();
      await sent;
      if (code !== 0 && !response.destroyed)
        log.warn("git ended with an error", { code, stderr: stderr(), service: exchange.service });
    } finally {
      clearTimeout(timer);
      end();
      asks.destroy();
      await exit.catch(() => undefined);
      await decided.catch(() => undefined);
      moved?.();
    }
  }

  async #decide(exchange: GitExchange, asks: Readable, verdict: Writable): Promise<(() => void) | undefined> {
    const { acceptance, log } = this.#parts;
    const { bare, pusher, traceparent } = exchange;
    try {
      const request = await readReceiveRequest(asks);
      if (request === undefined) return undefined;
      const moved = await acceptance.accept({ bare, ...request, pushId: uuidv7(), pusher, traceparent });
      answerReceive(verdict, { isAccepted: true, text: receiptOf(bare.repo, request.updates).join("\n") });
      return moved;
    } catch (error) {
      const isRefusal = isCodedError(error) && error.kind !== "failed";
      if (!isRefusal) log.error("a push could not be decided", { error, owner: bare.repo.owner, path: bare.repo.path });
      const text = isRefusal ? `${error.code}: ${error.message}` : "INTERNAL: the push could not be decided; try again";
      answerReceive(verdict, { isAccepted: false, text });
      return undefined;
    }
  }
}

function cgiEnv({ bare, service, what }: GitExchange, request: IncomingMessage): Record<string, string> {
  const header = (name: string): string => {
    const value = request.headers[name];
    return typeof value === "string" ? value : "";
  };
  return {
    GIT_PROJECT_ROOT: bare.dir,
    GIT_HTTP_EXPORT_ALL: "1",
    PATH_INFO: what === "refs" ? "/info/refs" : `/${service}`,
    QUERY_STRING: what === "refs" ? `service=${service}` : "",
    REQUEST_METHOD: what === "refs" ? "GET" : "POST",
    CONTENT_TYPE: header("content-type"),
    HTTP_CONTENT_ENCODING: header("content-encoding"),
    // Any other text would be passed on to git as a protocol's name.
    ...(/^version=[012]$/.test(header("git-protocol")) ? { GIT_PROTOCOL: header("git-protocol") } : {}),
    ...(/^\d{1,15}$/.test(header("content-length")) ? { CONTENT_LENGTH: header("content-length") } : {}),
  };
}

/** Reads the CGI head, sets status and headers, and answers the rest of the stream. */
async function readHead(output: Readable, response: ServerResponse): Promise<Readable> {
  let head = Buffer.alloc(0);
  for (;;) {
    const piece = (await nextPiece(output)) as Buffer | null;
    if (piece === null) throw codedError("INTERNAL", "git ended without an answer");
    head = Buffer.concat([head, piece]);
    const at = head.indexOf("\r\n\r\n");
    if (at >= 0) {
      output.unshift(head.subarray(at + 4));
      applyHead(head.toString("latin1", 0, at), response);
      return output;
    }
    if (head.byteLength > maxHeadBytes) throw codedError("INTERNAL", "git answered a head that is too long");
  }
}

function nextPiece(stream: Readable): Promise<unknown> {
  const piece: unknown = stream.read();
  if (piece !== null) return Promise.resolve(piece);
  if (stream.readableEnded || stream.destroyed) return Promise.resolve(null);
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      stream.off("readable", settle).off("end", settle).off("close", settle).off("error", reject);
      resolve(nextPiece(stream));
    };
    stream.on("readable", settle).on("end", settle).on("close", settle).on("error", reject);
  });
}

function applyHead(head: string, response: ServerResponse): void {
  response.statusCode = 200;
  for (const line of head.split("\r\n")) {
    const [name, value] = [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()];
    if (name.toLowerCase() === "status") response.statusCode = Number(value.slice(0, 3));
    else response.setHeader(name, value);
  }
}
