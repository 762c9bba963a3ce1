/** The platform's own host over HTTP: webhooks, git and the session socket. Decode, authorize, call, encode. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { readBody, type HttpHandler } from "@iterate-platform/service/http-server";
import type { Trust } from "@iterate-platform/service/trust";
import { codedError } from "iterate/lib";
import { tokenOfAuthorization, type AdminToken } from "../identity/admin-token.js";
import type { Projects } from "../project/projects.js";
import { gitAddressOf } from "../route/addresses.js";
import type { Forwarder } from "../route/forward.js";
import type { SessionSockets } from "../session/socket.js";
import { maxBodyBytes } from "../webhook/github/delivery-event.js";
import { receiveDelivery, type ReceivePorts, type Received } from "../webhook/github/receive.js";

export interface PlatformHostParts {
  readonly receive: ReceivePorts;
  /** Told of every delivery's end: how it was answered, and for whom once that is known. */
  readonly onDelivery: (end: Received | { readonly error: unknown }, header: (name: string) => string | undefined) => void;
  readonly projects: Projects;
  readonly adminToken: AdminToken;
  readonly sockets: SessionSockets;
  readonly forwarder: Forwarder;
  readonly trust: Trust;
  readonly bundlerHttpUrl: string;
}

const deliveryBodyWithinMs = 30_000;
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
    if (endpointId !== undefined) return receiveWebhook(parts, endpointId, request, response);
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

async function receiveWebhook(
  parts: PlatformHostParts,
  endpointId: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const header = (name: string): string | undefined => singleHeader(request, name);
  try {
    if (request.method !== "POST") throw codedError("INVALID_INPUT", `a delivery is a POST, not ${request.method}`);
    const received = await receiveDelivery(endpointId, header, () => deliveryBody(request), parts.receive);
    parts.onDelivery(received, header);
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ status: received.outcome, delivery: received.deliveryId }));
  } catch (error) {
    parts.onDelivery({ error }, header);
    throw error;
  }
}

/** The raw body. A sender that takes longer than the bound is cut: GitHub itself gives up after 10 s. */
async function deliveryBody(request: IncomingMessage): Promise<Buffer> {
  const timer = setTimeout(() => request.destroy(), deliveryBodyWithinMs);
  try {
    return await readBody(request, maxBodyBytes);
  } finally {
    clearTimeout(timer);
  }
}

/** The one value of a header; several of one name count as none, because which of them was signed for cannot be known. */
function singleHeader(request: IncomingMessage, name: string): string | undefined {
  const values = request.headersDistinct[name];
  return values?.length === 1 ? values[0] : undefined;
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
