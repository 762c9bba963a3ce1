/** The table of fetch routes and the ingress target, as folds. */
import { itx } from "iterate/events";
import { expect, test } from "vitest";
import { fetchRoutes } from "./fetch-routes.js";
import { ingress } from "./ingress.js";

const configured = (payload: object, offset = 1) => ({
  offset,
  type: itx.fetchRouteConfigured.type,
  payload: itx.fetchRouteConfigured.payload.parse(payload),
});
const site = (name: string, more: object = {}) => ({ fetchRouteName: name, requestMatcher: {}, target: "itx.site", ...more });

test("a row replaces the one of its name, and goes without a matcher", () => {
  const one = fetchRoutes.reduce({}, configured(site("b")), {} as never);
  const two = fetchRoutes.reduce(one, configured(site("a", { priority: 2, authRequirement: "project-members" }), 2), {} as never);
  expect(Object.values(two)).toMatchObject([
    { name: "a", target: ["itx", "site"], priority: 2, authRequirement: "project-members", configuredAtOffset: 2 },
    { name: "b", priority: 0, authRequirement: null },
  ]);
  const gone = configured({ fetchRouteName: "a", requestMatcher: null }, 3);
  expect(Object.keys(fetchRoutes.reduce(two, gone, {} as never))).toEqual(["b"]);
  expect(fetchRoutes.reduce(one, gone, {} as never)).toBe(one);
});

test.each([
  ["no target", { fetchRouteName: "a", requestMatcher: {} }],
  ["a name that meets prototypes", site("constructor")],
  ["a name with a slash", site("a/b")],
  ["a step to the fixed point", site("a", { target: "itx.builtins.kv" })],
  ["arguments of fetch", site("a", { target: "itx.site.fetch(1)" })],
  ["a target beyond ASCII", site("a", { target: 'itx.site("é")' })],
  ["a regular expression", site("a", { requestMatcher: { url: { pathname: "/(a+)+" } } })],
  ["an unknown part of the address", site("a", { requestMatcher: { url: { path: "/" } } })],
  ["a reserved slug", site("a", { requestMatcher: { routingSlug: "files" } })],
  ["a slug that splits", site("a", { requestMatcher: { routingSlug: "xn--a" } })],
  ["a header that is no name", site("a", { requestMatcher: { headers: { "a b": "c" } } })],
  ["an authRequirement nobody knows", site("a", { authRequirement: "owners" })],
])("%s is refused", (_, payload) => {
  expect(itx.fetchRouteConfigured.payload.safeParse(payload).success).toBe(false);
});

test("a project has at most 200 routes; one of them can still be replaced and taken away", () => {
  const routes = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`r${at}`, {} as never])) as ReturnType<typeof fetchRoutes.reduce>;
  const { perContext } = itx.fetchRouteLimits;
  const check = (count: number, payload: object) => fetchRoutes.check!(routes(count), configured(payload), {} as never);
  check(perContext - 1, site("new"));
  expect(() => check(perContext, site("new"))).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }));
  check(perContext, site("r0"));
  check(perContext, { fetchRouteName: "new", requestMatcher: null });
});

test("the ingress target is the last one set", () => {
  const event = (target: string | null, offset: number) => ({
    offset,
    type: itx.ingressConfigured.type,
    payload: itx.ingressConfigured.payload.parse({ target }),
  });
  const set = ingress.reduce(null, event("itx.config", 4), {} as never);
  expect(set).toEqual({ target: ["itx", "config"], configuredAtOffset: 4 });
  expect(ingress.reduce(set, event(null, 5), {} as never)).toBeNull();
});
