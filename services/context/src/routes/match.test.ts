/** Which route takes which request, as tables; the order of ties, and what a bad pattern costs. */
import { matchesUrlPattern, parseUrlPattern } from "iterate/events";
import { describe, expect, test } from "vitest";
import type { FetchRouteRow, RequestMatcher, RoutedRequest } from "./contract.js";
import { matchFetchRoute } from "./match.js";

const row = (name: string, requestMatcher: RequestMatcher, priority = 0): FetchRouteRow => ({
  name,
  requestMatcher,
  target: ["itx", "site"],
  authRequirement: null,
  priority,
  configuredAtOffset: 1,
});
const table = (...rows: FetchRouteRow[]): Record<string, FetchRouteRow> => Object.fromEntries(rows.map((one) => [one.name, one]));
const request = (fields: Partial<Omit<RoutedRequest, "url">> & { url?: string } = {}): RoutedRequest => ({
  routingSlug: null,
  headers: {},
  ...fields,
  url: new URL(fields.url ?? "https://acme.example/"),
});
const taken = (rows: Record<string, FetchRouteRow>, asked: RoutedRequest): string | undefined => matchFetchRoute(rows, asked)?.name;

describe("a request is taken", () => {
  test("by the route of highest priority, and of equal ones by the first name", () => {
    const rows = table(row("b", {}), row("a", {}), row("z", {}, 1), row("low", {}, -1));
    expect(taken(rows, request())).toBe("z");
    const { z: _, ...equal } = rows;
    expect(taken(equal, request())).toBe("a");
  });

  test("by a route with a slug never at the apex, and by one without wherever it comes", () => {
    const slug = table(row("slugged", { routingSlug: "docs" }));
    expect(taken(slug, request())).toBeUndefined();
    expect(taken(slug, request({ routingSlug: "docs" }))).toBe("slugged");
    expect(taken(slug, request({ routingSlug: "doc" }))).toBeUndefined();
    expect(taken(table(row("any", {})), request({ routingSlug: "docs" }))).toBe("any");
  });

  test("by headers whose values are exact and whose names have no case", () => {
    const rows = table(row("versioned", { headers: { "X-Version": "Two" } }));
    expect(taken(rows, request({ headers: { "x-VERSION": "Two" } }))).toBe("versioned");
    expect(taken(rows, request({ headers: { "x-version": "two" } }))).toBeUndefined();
    expect(taken(rows, request())).toBeUndefined();
  });

  test.each([
    [{ pathname: "/docs/*" }, "https://a.b/docs/x/y", true],
    [{ pathname: "/docs/*" }, "https://a.b/docs", false],
    [{ pathname: "/:team/:page" }, "https://a.b/red/start", true],
    [{ pathname: "/:team/:page" }, "https://a.b/red/a/b", false],
    [{ pathname: "/a\\*b" }, "https://a.b/a*b", true],
    [{ hostname: "*.Example.com" }, "https://x.example.com/", true],
    [{ hostname: ":one.example.com" }, "https://x.y.example.com/", false],
    [{ protocol: "https", port: "" }, "https://a.b/", true],
    [{ protocol: "https" }, "http://a.b/", false],
    [{ port: "8443" }, "https://a.b:8443/", true],
    [{ search: "page=*" }, "https://a.b/?page=2", true],
    [{ search: "" }, "https://a.b/?page=2", false],
    [{ pathname: "/(.*)" }, "https://a.b/x", false],
  ])("by patterns of its address: %j, %s: %s", (url, asked, isTaken) => {
    expect(taken(table(row("one", { url })), request({ url: asked }))).toBe(isTaken ? "one" : undefined);
  });
});

describe("patterns", () => {
  test.each(["(a)", "{a}?", ":a+", ":a(\\d+)", "a?", "a\\", "*".repeat(9), "a".repeat(257)])("%s is refused", (text) => {
    expect(parseUrlPattern("pathname", text)).toBeTypeOf("string");
  });

  test("cost the length of the text, whatever they hold", () => {
    const pattern = parseUrlPattern("pathname", `${"*a".repeat(8)}b`);
    if (typeof pattern === "string") throw new Error(pattern);
    const startedAt = performance.now();
    expect(matchesUrlPattern(pattern, "a".repeat(20_000))).toBe(false);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });
});
