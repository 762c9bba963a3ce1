/** Opens the WebSocket of a deployment's `/api`, and says in words why it could not. */
import { WebSocket } from "ws";
import { CodedError, codedError } from "../lib/coded-error.js";

/** Largest message taken: a page of 8 MiB of bodies in the protocol's escapes. */
const maxMessageBytes = 32 * 1024 * 1024;

/**
 * Throws INVALID_INPUT for an address that is no http(s) URL; UNAVAILABLE when nothing answers there in `timeoutMs` or the platform is
 * not ready; FORBIDDEN or UNAUTHENTICATED when the connection itself is refused; NOT_FOUND when what answers has no `/api`.
 */
export function openSocket(baseUrl: string, timeoutMs: number): Promise<WebSocket> {
  const url = apiUrl(baseUrl);
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { handshakeTimeout: timeoutMs, maxPayload: maxMessageBytes, perMessageDeflate: false });
    socket.once("open", () => {
      socket.removeAllListeners("error");
      resolve(socket);
    });
    socket.once("unexpected-response", (request, response) => {
      response.resume();
      request.destroy();
      reject(refusal(baseUrl, response.statusCode ?? 0, response.headers["retry-after"]));
    });
    socket.on("error", (error: Error & { code?: string }) => {
      reject(
        new CodedError(
          "UNAVAILABLE",
          `cannot connect to ${baseUrl} (${error.code ?? error.message}); is the platform running there?`,
          { data: { baseUrl }, cause: error },
        ),
      );
    });
  });
}

function apiUrl(baseUrl: string): URL {
  const base = URL.canParse(baseUrl) ? new URL(baseUrl) : null;
  if (base === null || !/^https?:$/.test(base.protocol)) {
    throw codedError(
      "INVALID_INPUT",
      `the base URL ${JSON.stringify(baseUrl)} must be an http or https address, for example http://localhost:7400`,
      { baseUrl },
    );
  }
  const api = new URL(`${base.pathname.replace(/\/$/, "")}/api`, base);
  api.protocol = base.protocol === "https:" ? "wss:" : "ws:";
  return api;
}

function refusal(baseUrl: string, status: number, retryAfter: string | undefined): CodedError {
  const data = { baseUrl, status };
  if (status === 401)
    return codedError("UNAUTHENTICATED", `${baseUrl} refuses the connection without a credential (HTTP 401)`, data);
  if (status === 403) return codedError("FORBIDDEN", `${baseUrl} refuses the connection (HTTP 403)`, data);
  if (status === 429 || status >= 500) {
    const seconds = Number(retryAfter);
    return new CodedError("UNAVAILABLE", `${baseUrl} cannot take the connection now (HTTP ${status}); try again`, {
      data,
      ...(seconds > 0 ? { retryAfterMs: seconds * 1000 } : {}),
    });
  }
  return codedError("NOT_FOUND", `${baseUrl} answers, but has no Iterate API (HTTP ${status}); check the base URL`, data);
}
