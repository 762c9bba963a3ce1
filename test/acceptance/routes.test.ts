/** Fetch routes over gRPC, by a process of the service on a real database. */
import { itx } from "iterate/events";
import { expect, test } from "vitest";
import { Calls } from "./invoke.fixture.js";
import { useLogService, type Context } from "./log-service.fixture.js";

const service = useLogService();
const calls = new Calls(service);
const root = (): Context => ({ owner: service.owner, path: "/" });
const call = (expression: string | readonly unknown[]): Promise<unknown> => calls.value(root(), expression);
const set = (route: object): Promise<unknown> => call(["itx", "fetchRoutes", ["set", route]]);
const match = async (request: object): Promise<{ route: { name: string } | null; target: string }> =>
  (await call(["itx", "fetchRoutes", ["match", request]])) as { route: { name: string } | null; target: string };
const taker = async (request: object): Promise<string | undefined> => (await match(request)).route?.name;

test("[iterate-45] routes that tie are decided by priority, then name; a slug's route never takes the apex; header values are exact", async () => {
  const url = "https://acme.example/tie";
  const requestMatcher = { url: { pathname: "/tie" } };
  await set({ name: "b", requestMatcher, target: "itx.b" });
  await set({ name: "a", requestMatcher, target: "itx.a" });
  expect(await taker({ url })).toBe("a");
  await set({ name: "z", requestMatcher, target: "itx.z", priority: 1 });
  expect(await taker({ url })).toBe("z");
  await set({ name: "slug", requestMatcher: { ...requestMatcher, routingSlug: "docs" }, target: "itx.docs", priority: 5 });
  expect([await taker({ url }), await taker({ url, routingSlug: "docs" })]).toEqual(["z", "slug"]);
  await set({ name: "header", requestMatcher: { headers: { "X-Beta": "Yes" } }, target: "itx.beta", priority: 9 });
  expect(await taker({ url, headers: { "x-beta": "Yes" } })).toBe("header");
  expect(await taker({ url, headers: { "x-beta": "yes" } })).toBe("z");
  expect(await call("itx.fetchRoutes.remove('z')")).toEqual({ removed: true });
  expect(await taker({ url })).toBe("a");
  expect(await call("itx.fetchRoutes.remove('z')")).toEqual({ removed: false });
});

test("what no route takes goes to the ingress target, else to the published code", async () => {
  const url = "https://acme.example/none";
  expect(await match({ url })).toEqual({ route: null, target: "itx.config" });
  await call('itx.fetchRoutes.setIngress("itx.site")');
  expect(await match({ url })).toEqual({ route: null, target: "itx.site" });
  expect(await call("itx.fetchRoutes.ingress().target")).toBe("itx.site");
  await call("itx.fetchRoutes.setIngress(null)");
  expect(await call("itx.fetchRoutes.ingress()")).toBeNull();
});

test("routes are the project's: below its root they are refused", async () => {
  const payload = { fetchRouteName: "a", requestMatcher: {}, target: "itx.site" };
  const below = service.append(service.newContext(), [{ type: itx.fetchRouteConfigured.type, payload }]);
  await expect(below).rejects.toMatchObject({ code: "INVALID_INPUT" });
});

test("[iterate-44] a route in the log that has not the shape of one is skipped by the fold, and the others match", async () => {
  const requestMatcher = { url: { pathname: "/kept" } };
  await set({ name: "kept", requestMatcher, target: "itx.kept" });
  const { configuredAtOffset } = (await set({ name: "broken", requestMatcher, target: "itx.broken", priority: 100 })) as {
    configuredAtOffset: number;
  };
  expect(await taker({ url: "https://a.b/kept" })).toBe("broken");
  await service.restart("ended", async () => {
    const where = "context_id = (select context_id from context where owner = $1 and path = '/')";
    const payload = JSON.stringify({ fetchRouteName: "broken", requestMatcher: { url: { pathname: "/(" } }, target: 7 });
    await service.pool.query(`update event set payload = $3 where ${where} and "offset" = $2`, [
      service.owner,
      configuredAtOffset,
      payload,
    ]);
    await service.pool.query(`delete from core_state where ${where}`, [service.owner]);
  });
  expect(await taker({ url: "https://a.b/kept" })).toBe("kept");
  expect(((await call("itx.fetchRoutes.list()")) as { name: string }[]).map(({ name }) => name)).not.toContain("broken");
});
