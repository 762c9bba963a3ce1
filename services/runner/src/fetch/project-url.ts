/** Where a request of the internal listener points: `/fetch/<owner>/<path>` with the address and headers its client used. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { codedError } from "iterate/lib";

export interface ProjectAddress {
  readonly owner: string;
  /** Absolute, as the client of the platform spelled it, below the project's base path. */
  readonly url: string;
}

/** RFC 9112 §3.2: a host and a port, nothing else. */
const hostPattern = /^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/;
const pattern = /^\/fetch\/([A-Za-z0-9_-]{1,128})(\/[^?#]*)?(\?.*)?$/;

/** @throws NOT_FOUND for any other path. */
export function projectAddress({ url = "/", headers }: Pick<IncomingMessage, "url" | "headers">): ProjectAddress {
  const match = pattern.exec(url);
  if (match === null) throw codedError("NOT_FOUND", "this listener serves /fetch/<project id>/…");
  const [, owner = "", path = "/", query = ""] = match;
  const scheme = single(headers, "x-forwarded-proto") === "https" ? "https" : "http";
  const host = single(headers, "x-forwarded-host") ?? headers.host ?? "localhost";
  const address = `${scheme}://${host}${path}${query}`;
  // Anything but a plain host would move what follows it: "a/b", "user@a" and "" still make a URL, of another place.
  if (!hostPattern.test(host) || !URL.canParse(address))
    throw codedError("INVALID_INPUT", `the forwarded host ${JSON.stringify(host.slice(0, 100))} makes no URL`, {
      field: "x-forwarded-host",
    });
  return { owner, url: address };
}

/** Under this name ingress passes on the `authorization` of its own client; the plain name is the calling service's here. */
const projectAuthorization = "x-iterate-project-authorization";
/** Credentials of the call between services, and what says how it got here. */
const internal = new Set([
  "authorization",
  "host",
  "x-iterate-execution",
  "x-iterate-principal",
  projectAuthorization,
  "x-forwarded-host",
  "x-forwarded-proto",
  "traceparent",
  "tracestate",
]);

/** The headers the project's code sees. */
export function projectHeaders(request: Pick<IncomingMessage, "rawHeaders">): [string, string][] {
  const headers: [string, string][] = [];
  for (let at = 0; at + 1 < request.rawHeaders.length; at += 2) {
    const name = request.rawHeaders[at] ?? "";
    const value = request.rawHeaders[at + 1] ?? "";
    if (name.toLowerCase() === projectAuthorization) headers.push(["authorization", value]);
    else if (!internal.has(name.toLowerCase())) headers.push([name, value]);
  }
  return headers;
}

function single(headers: IncomingHttpHeaders, name: string): string | undefined {
  return [headers[name]].flat()[0];
}
