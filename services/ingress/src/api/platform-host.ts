/** The platform's own host over HTTP: webhooks, git and the session socket. Decode, authorize, call, encode. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { HttpHandler } from "@iterate-platform/service/http-server";
import type { Trust } from "@iterate-platform/service/trust";
import { codedError } from "iterate/lib";
import { tokenOfAuthorization, type AdminToken } from "../identity/admin-token.js";
import type { Projects } from "../project/projects.js";
import { gitAddressOf } from "../route/addresses.js";
import type { Forwarder } from "../route/forward.js";
import type { SessionSockets } from "../session/socket.js";
import { receiveOver, type DeliveryParts } from "./delivery.js";
import { singleHeader } from "./single-header.js";

export interface PlatformHostParts extends DeliveryParts {
  readonly projects: Projects;
  readonly adminToken: AdminToken;
  readonly sockets: SessionSockets;
  readonly forwarder: Forwarder;
  readonly trust: Trust;
  readonly bundlerHttpUrl: string;
}

/** git may be silent while a server packs a large repository. */
const gitIdleTimeoutMs = 120_000;

/** Of the platform's own answers: nothing is cached, sniffed, framed or leaked by referrer. */
export const securityHeaders = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "x-frame-options": "DENY",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
} as const;

export function platformHost(parts: PlatformHostParts): HttpHandler {
  return async (request, response) => {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value);
    const path = (request.url ?? "/").split("?")[0] ?? "/";
    const endpointId = /^\/api\/integrations\/github\/webhook\/([^/]+)$/.exec(path)?.[1];
    if (endpointId !== undefined) return receiveOver(request, response, endpointId, parts);
    if (gitAddressOf(request.url ?? "/") !== null) return forwardGit(parts, request, response);
    if (path === "/api") {
      response.setHeader("upgrade", "websocket");
      throw codedError("INVALID_INPUT", "/api is a WebSocket; connect with the package iterate, iterate/node");
    }
    throw codedError("NOT_FOUND", `nothing is at ${JSON.stringify(path.slice(0, 120))}`);
  };
}

export function platformUpgrade({ sockets }: PlatformHostParts) {
  return (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if ((request.url ?? "/").split("?")[0] !== "/api") throw codedError("NOT_FOUND", "sockets are at /api");
    sockets.upgrade(request, socket, head);
  };
}

async function forwardGit(parts: PlatformHostParts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const address = gitAddressOf(request.url ?? "/");
  if (address === null) throw codedError("NOT_FOUND", "nothing is at this address");
  const token = tokenOfAuthorization(singleHeader(request, "authorization"));
  if (token === null || !parts.adminToken.matches(token)) {
    response.setHeader("www-authenticate", 'Basic realm="iterate", charset="UTF-8"');
    throw codedError("UNAUTHENTICATED", "git needs the admin token as the password, with any user name");
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
