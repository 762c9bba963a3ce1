/** Git over HTTP: authenticates the person and hands the exchange to the bundler. What is refused is plain text, for git shows nothing else. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Trust } from "@iterate-platform/service/trust";
import { codedError, errorCodes, isCodedError } from "iterate/lib";
import { tokenOfAuthorization, type AdminToken } from "../identity/admin-token.js";
import type { Projects } from "../project/projects.js";
import { gitAddressOf } from "../route/addresses.js";
import type { Forwarder } from "../route/forward.js";
import { singleHeader } from "./single-header.js";

export interface GitParts {
  readonly projects: Pick<Projects, "get">;
  readonly adminToken: AdminToken;
  readonly forwarder: Pick<Forwarder, "forward">;
  readonly trust: Pick<Trust, "headers">;
  readonly bundlerHttpUrl: string;
}

/** git may be silent while a server packs a large repository. */
const gitIdleTimeoutMs = 120_000;

/** Answers a request below `/git/`. Throws what is the platform's own fault, before anything is answered. */
export async function serveGit(parts: GitParts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    await forwardGit(parts, request, response);
  } catch (error) {
    if (!isCodedError(error) || error.kind === "failed" || response.headersSent) throw error;
    response.setHeader("content-type", "text/plain; charset=utf-8");
    if (error.retryable) response.setHeader("retry-after", Math.ceil((error.retryAfterMs ?? 1_000) / 1_000));
    response.writeHead(errorCodes[error.code].http).end(`${error.code}: ${error.message}\n`);
  }
}

async function forwardGit(parts: GitParts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const address = gitAddressOf(request.url ?? "/");
  if (address === null)
    throw codedError("NOT_FOUND", "no repository is at this address; a project's is at /git/<project>/config.git");
  const authorization = singleHeader(request, "authorization");
  const token = tokenOfAuthorization(authorization);
  if (token === null || !parts.adminToken.matches(token)) {
    response.setHeader("www-authenticate", 'Basic realm="iterate", charset="UTF-8"');
    throw authorization === undefined
      ? codedError("UNAUTHENTICATED", "git needs the admin token as the password, with any user name")
      : codedError(
          "UNAUTHENTICATED",
          "the password is not the admin token of this deployment; on one machine it is in .iterate/admin-token",
        );
  }
  const project = await parts.projects.get(address.project);
  await parts.forwarder.forward(request, response, {
    origin: parts.bundlerHttpUrl,
    path: `/git/${project.id}/${encodeURIComponent(address.repoPath)}/${address.rest}`,
    headers: await parts.trust.headers("bundler", { principal: parts.adminToken.principal }),
    rules: { drop: new Set(["authorization", "cookie", "set-cookie"]) },
    idleTimeoutMs: gitIdleTimeoutMs,
  });
}
