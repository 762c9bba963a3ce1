/** Which route takes a request. Pure. */
import { matchesUrlPattern, parseUrlPattern, urlComponents, type UrlComponent, type UrlPattern } from "iterate/events";
import type { FetchRouteRow, FetchRoutes, RequestMatcher, RoutedRequest } from "./contract.js";

interface Prepared {
  readonly row: FetchRouteRow;
  /** `null` for a pattern that is none: it matches nothing. */
  readonly url: readonly (readonly [UrlComponent, UrlPattern])[] | null;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

const prepared = new WeakMap<FetchRoutes, readonly Prepared[]>();

/** The route of highest priority that matches, of several the first by name; `undefined` when none does. */
export function matchFetchRoute(routes: FetchRoutes, request: RoutedRequest): FetchRouteRow | undefined {
  let rows = prepared.get(routes);
  if (rows === undefined) prepared.set(routes, (rows = inOrder(routes)));
  const headers = new Map(Object.entries(request.headers).map(([name, value]) => [name.toLowerCase(), value]));
  return rows.find((row) => takes(row, request, headers))?.row;
}

function inOrder(routes: FetchRoutes): Prepared[] {
  return Object.values(routes)
    .sort((one, other) => other.priority - one.priority || (one.name < other.name ? -1 : 1))
    .map((row) => ({
      row,
      url: patternsOf(row.requestMatcher),
      headers: Object.entries(row.requestMatcher.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value] as const),
    }));
}

function patternsOf({ url = {} }: RequestMatcher): Prepared["url"] {
  const patterns: (readonly [UrlComponent, UrlPattern])[] = [];
  for (const component of urlComponents) {
    const text = url[component];
    if (text === undefined) continue;
    const pattern = parseUrlPattern(component, text);
    if (typeof pattern === "string") return null;
    patterns.push([component, pattern]);
  }
  return patterns;
}

function takes({ row, url, headers }: Prepared, request: RoutedRequest, given: ReadonlyMap<string, string>): boolean {
  const { routingSlug } = row.requestMatcher;
  if (routingSlug !== undefined && routingSlug !== request.routingSlug) return false;
  if (!headers.every(([name, value]) => given.get(name) === value)) return false;
  return url !== null && url.every(([component, pattern]) => matchesUrlPattern(pattern, partOf(request.url, component)));
}

function partOf(url: URL, component: UrlComponent): string {
  switch (component) {
    case "protocol":
      return url.protocol.slice(0, -1);
    case "search":
      return url.search.slice(1);
    default:
      return url[component];
  }
}
