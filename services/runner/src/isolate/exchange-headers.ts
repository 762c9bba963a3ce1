/**
 * The headers of an HTTP exchange as they change hands: runner → supervisor → workerd and back. A project's own headers pass as they
 * are, except those that belong to one connection and those the platform keeps for itself on this way.
 */
import type { IncomingMessage } from "node:http";

export const exchangeHeaders = {
  /** The ticket of the invocation. */
  invocation: "x-iterate-invocation",
  /** `https` or `http`, as the client of the platform spelled the URL. */
  scheme: "x-iterate-scheme",
  /** The project's `authorization`: on this way the name belongs to the calling service. */
  authorization: "x-iterate-project-authorization",
  /** How the exchange went. */
  outcome: "x-iterate-outcome",
} as const;

const ofOneConnection = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "expect",
];
const ofThePlatform = [...Object.values(exchangeHeaders), "x-iterate-operation", "x-iterate-scope"];
const dropped = new Set<string>([...ofOneConnection, ...ofThePlatform]);

/** The pairs that may travel on. */
export function forwardable(pairs: Iterable<readonly [string, string]>): [string, string][] {
  return [...pairs].filter(([name]) => !dropped.has(name.toLowerCase())).map(([name, value]) => [name, value]);
}

/** The headers with which the runner carries a project's request to the supervisor. */
export function toSupervisorHeaders(
  pairs: Iterable<readonly [string, string]>,
  scheme: string,
  ticket: string,
): [string, string][] {
  const kept = forwardable(pairs).map(([name, value]): [string, string] => [
    name.toLowerCase() === "authorization" ? exchangeHeaders.authorization : name,
    value,
  ]);
  return [...kept, [exchangeHeaders.scheme, scheme], [exchangeHeaders.invocation, ticket]];
}

/** The project's request again, as workerd is given it: a flat list of names and values. */
export function fromRunnerHeaders(request: IncomingMessage): { path: string; method: string; headers: string[] } {
  const pairs: [string, string][] = [];
  for (let i = 0; i < request.rawHeaders.length; i += 2) pairs.push([request.rawHeaders[i]!, request.rawHeaders[i + 1]!]);
  const headers = forwardable(pairs).filter(([name]) => name.toLowerCase() !== "authorization");
  const single = (name: string) => [request.headers[name]].flat()[0];
  const authorization = single(exchangeHeaders.authorization);
  if (authorization !== undefined) headers.push(["authorization", authorization]);
  headers.push([exchangeHeaders.scheme, single(exchangeHeaders.scheme) === "https" ? "https" : "http"]);
  return { path: request.url ?? "/", method: request.method ?? "GET", headers: headers.flat() };
}

/** The project's response headers on their way back; those that repeat stay apart. */
export function responseHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = { [exchangeHeaders.outcome]: "returned" };
  for (const [name, value] of Object.entries(headers)) if (value !== undefined && !dropped.has(name)) kept[name] = value;
  return kept;
}
