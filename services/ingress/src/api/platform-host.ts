/** The platform's own host over HTTP: webhooks, git and the session socket. Decode, authorize, call, encode. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { HttpHandler } from "@iterate-platform/service/http-server";
import { codedError } from "iterate/lib";
import { projectAddressOf } from "../route/addresses.js";
import type { Addresses } from "../session/session-scope.js";
import type { SessionSockets } from "../session/socket.js";
import { receiveOver, type DeliveryParts } from "./delivery.js";
import { serveGit, type GitParts } from "./git.js";

export interface PlatformHostParts extends DeliveryParts, GitParts {
  readonly sockets: Pick<SessionSockets, "upgrade">;
  readonly addresses: Pick<Addresses, "project">;
}

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
    if (path.startsWith("/git/")) return serveGit(parts, request, response);
    if (path === "/api") {
      response.setHeader("upgrade", "websocket");
      throw codedError("INVALID_INPUT", "/api is a WebSocket; connect with the package iterate, iterate/node");
    }
    const page = projectAddressOf(path);
    const where = page !== null && "slug" in page ? `; the project's pages are at ${parts.addresses.project(page.slug)}` : "";
    throw codedError("NOT_FOUND", `nothing is at ${JSON.stringify(path.slice(0, 120))}${where}`);
  };
}

export function platformUpgrade({ sockets }: PlatformHostParts) {
  return (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if ((request.url ?? "/").split("?")[0] !== "/api") throw codedError("NOT_FOUND", "sockets are at /api");
    sockets.upgrade(request, socket, head);
  };
}
