/** Calls of builtins by expression, over gRPC, by a process of the service on a real database and broker. */
import { newId } from "@iterate-platform/service/ids";
import { project as events } from "iterate/events";
import { eventually } from "@iterate-platform/testing";
import { describe, expect, test } from "vitest";
import { Calls } from "./invoke.fixture.js";
import { codeOf, person, platform, useLogService, type Context } from "./log-service.fixture.js";

const service = useLogService();
const calls = new Calls(service);
const call = calls.value.bind(calls);
const root = (): Context => ({ owner: service.owner, path: "/" });

const refusal = (code: string, message: RegExp): unknown =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

describe("calling builtins", () => {
  test("a call is answered in the context it names, in one round trip for the whole expression", async () => {
    const context = service.newContext();
    await service.append(root(), [{}]);
    expect(await call(context, "itx.whoami()")).toEqual({ projectId: service.owner, projectSlug: "", path: context.path });
    expect(await call(context, "itx.whoami().path")).toBe(context.path);
    expect(await call(context, ["itx", ["whoami"], "path"])).toBe(context.path);
    expect(await call(context, 'itx.cd("/").whoami().path')).toBe("/");
    expect(await call(context, 'itx.cd("..").cd("./x").whoami().path')).toBe("/log/x");
  });

  test("a project's pages have an address, and what is none has no pages", async () => {
    const project = { owner: newId("prj"), path: "/" };
    await expect(call(project, "itx.url()")).rejects.toEqual(refusal("NOT_FOUND", /no project/));
    await service.append(project, [{ type: events.projectCreateRequested.type, payload: { slug: "acme" } }], platform);
    expect(await call({ ...project, path: "/a" }, "itx.url()")).toBe("http://127.0.0.1:7402/projects/acme/");
  });

  test("an append by expression is the append: stamped with the caller, read back as stored", async () => {
    const context = service.newContext();
    const written = await call(context, 'itx.append({type: "acme/made", payload: {n: 1}}, {type: "acme/made"})');
    expect(written).toMatchObject([
      { type: "acme/made", payload: { n: 1 }, path: context.path, source: { origin: "/", principal: person.principal! } },
      { type: "acme/made" },
    ]);
    const page = await call(context, "itx.readEvents({types: ['acme/made']}).events");
    expect(page).toEqual(written);
    await expect(call(context, 'itx.append({type: "acme/made", offset: 1})')).rejects.toEqual(refusal("OFFSET_CONFLICT", /./));
  });

  test("[iterate-38] code that goes to the root appends there, as the context it is of", async () => {
    const context = service.newContext();
    await call(context, 'itx.cd("/").append({type: "acme/told"})', codeOf(context.path));
    const { events } = await service.read(root(), 0, { types: ["acme/told"] });
    expect(events.at(-1)!.event.source).toMatchObject({ origin: context.path });
  });

  test("code may neither spell the fixed point nor call in another project", async () => {
    const context = service.newContext();
    await expect(call(context, "itx.builtins.whoami()", codeOf(context.path))).rejects.toEqual(refusal("FORBIDDEN", /builtins/));
    await expect(call(context, 'itx.cd("/").builtins.whoami()', codeOf("/"))).rejects.toEqual(refusal("FORBIDDEN", /builtins/));
    await expect(call(context, "itx.whoami()", codeOf("/", { owner: "prj_00000000000000000000000000" }))).rejects.toEqual(
      refusal("FORBIDDEN", /may not read/),
    );
    expect(await call(context, "itx.builtins.whoami().path")).toBe(context.path);
  });

  test("a name nothing answers says what was meant, and where it is answered", async () => {
    const context = service.newContext();
    await expect(call(context, "itx.whoam()")).rejects.toEqual(refusal("NO_ITX_EXPRESSION_MATCH", /did you mean itx\.whoami\?/));
    await expect(call(context, 'itx.kv.get("k")')).rejects.toEqual(refusal("NO_ITX_EXPRESSION_MATCH", /itx\.cd\("\/"\)\.kv/));
    await expect(call(root(), 'itx.kv.gte("k")')).rejects.toEqual(refusal("NOT_A_METHOD", /did you mean get\?/));
    await expect(call(root(), "itx.ai.run()")).rejects.toEqual(refusal("NO_ITX_EXPRESSION_MATCH", /no service of this deployment/));
  });

  test("what follows a call reads properties of its answer, and nothing else", async () => {
    await expect(call(root(), "itx.whoami().path()")).rejects.toEqual(refusal("NOT_A_METHOD", /is data/));
    await expect(call(root(), "itx.whoami()()")).rejects.toEqual(refusal("NOT_A_METHOD", /is data/));
    await expect(call(root(), "itx.whoami().path.length")).rejects.toEqual(refusal("NOT_A_METHOD", /is a string/));
    await expect(call(root(), "itx.whoami")).rejects.toEqual(refusal("NOT_A_METHOD", /call it: itx\.whoami\(\)/));
    await expect(call(root(), "itx.kv")).rejects.toEqual(refusal("NOT_A_METHOD", /get, put/));
    expect(await call(root(), "itx.whoami().toString")).toBeUndefined();
    expect(await call(root(), 'itx.kv.get("nothing")')).toBeNull();
  });

  test("arguments are checked, and the place that is wrong is named", async () => {
    await expect(call(root(), "itx.readEvents({limit: 0})")).rejects.toEqual(
      refusal("INVALID_INPUT", /itx\.readEvents: arguments\[0\]\.limit: .*it takes \(args\?/),
    );
    await expect(call(root(), "itx.whoami(1)")).rejects.toEqual(refusal("INVALID_INPUT", /arguments/));
    await expect(call(root(), "itx.append({payload: 1})")).rejects.toEqual(refusal("INVALID_INPUT", /arguments\[0\]\.type/));
    await expect(call(root(), "itx.readEvents({limt: 3})")).rejects.toEqual(refusal("INVALID_INPUT", /limt/));
    await expect(call(root(), "itx.")).rejects.toEqual(refusal("INVALID_INPUT", /./));
  });

  test("one call goes on in 16 contexts and no more", async () => {
    const context = service.newContext();
    const crossing = (times: number): string => `itx${'.cd("/a")'.repeat(times)}.whoami().path`;
    expect(await call(context, crossing(16))).toBe("/a");
    await expect(call(context, crossing(17))).rejects.toEqual(refusal("NO_ITX_EXPRESSION_MATCH", /more than 16 contexts/));
  });

  test("a stream stays a stream: it is read as it happens, and ends when its reader leaves", async () => {
    const context = service.newContext();
    await service.append(context, [{ payload: 1 }]);
    const frames = calls.stream(context, "itx.streamEvents({afterOffset: 0})");
    const seen: unknown[] = [];
    const until = async (count: number): Promise<void> => {
      while (seen.length < count) {
        const { value } = (await frames.next()) as { value: { events: { payload: unknown }[] } };
        seen.push(...value.events.filter(({ payload }) => typeof payload === "number").map(({ payload }) => payload));
      }
    };
    await until(1);
    await service.append(context, [{ payload: 2 }]);
    await until(2);
    expect(seen).toEqual([1, 2]);
    await frames.return(undefined);
    await eventually(async () => (await service.openStreams()) === 0);
    await expect(call(context, "itx.streamEvents().events")).rejects.toEqual(refusal("NOT_A_METHOD", /is a stream/));
  });

  test("a chain too deep to act is refused what acts, and answered what reads", async () => {
    const deep = codeOf("/", { cause: { chain: "2030-01-01T00:00:00.000Z with person ~deep", depth: 9 } });
    await expect(call(root(), "itx.append({type: 'acme/again'})", deep)).rejects.toEqual(refusal("LOOP_LIMIT", /./));
    await expect(call(root(), "itx.kv.put('again', 1)", deep)).rejects.toEqual(refusal("LOOP_LIMIT", /./));
    expect(await call(root(), "itx.whoami().path", deep)).toBe("/");
  });
});

describe("aborting a context", () => {
  test("it is recorded, and what is stored stays", async () => {
    await call(root(), 'itx.kv.put("kept", {n: 1})');
    const { offset } = (await call(root(), 'itx.abort("stuck")')) as { offset: number };
    const { events } = await service.read(root(), offset - 1, { limit: 1 });
    expect(events[0]).toMatchObject({
      offset,
      type: "events.iterate.com/itx/aborted",
      payload: { reason: "stuck", callerPath: "/" },
    });
    expect(await call(root(), 'itx.kv.get("kept").value')).toEqual({ n: 1 });
    expect(await call(root(), 'itx.append({type: "acme/after"})')).toMatchObject([{ offset: offset + 1 }]);
  });

  test("a paused context is aborted too", async () => {
    const context = service.newContext();
    await service.append(context, [{ type: "events.iterate.com/itx/paused", payload: {} }]);
    await expect(call(context, "itx.append({type: 'acme/held'})")).rejects.toEqual(refusal("STREAM_PAUSED", /./));
    expect(await call(context, "itx.abort()")).toEqual({ offset: expect.any(Number) });
  });
});

describe("subscriptions by expression", () => {
  test("rows are set, listed, resumed and removed as by their events", async () => {
    const context = service.newContext();
    const { configuredAtOffset } = (await call(
      context,
      'itx.subscriptions.set({name: "orders", target: "itx.config", consumes: ["acme/ordered"]})',
    )) as { configuredAtOffset: number };
    const row = {
      name: "orders",
      target: "itx.config",
      consumes: ["acme/ordered"],
      afterOffset: configuredAtOffset,
      configuredAtOffset,
      haltedAtOffset: null,
    };
    expect(await call(context, "itx.subscriptions.list()")).toEqual([row]);
    expect(await call(context, 'itx.subscriptions.get("orders")')).toEqual(row);
    expect(await call(context, 'itx.subscriptions.get("other")')).toBeNull();
    expect(await call(context, 'itx.subscriptions.resume("orders")')).toEqual({ resumedAtOffset: expect.any(Number) });
    await expect(call(context, 'itx.subscriptions.resume("other")')).rejects.toEqual(refusal("NOT_FOUND", /other/));
    expect(await call(context, 'itx.subscriptions.remove("orders", {ifConfiguredAtOffset: 1})')).toEqual({ removed: false });
    expect(await call(context, 'itx.subscriptions.remove("orders")')).toEqual({ removed: true });
    expect(await call(context, "itx.subscriptions.list()")).toEqual([]);
  });
});
