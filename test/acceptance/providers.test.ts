/** Roots that another service answers: listed, called, described and missed, over gRPC between real processes. */
import { CapabilityServiceService } from "@iterate-platform/proto/iterate/capability/v1/capability";
import { group, handleMethod, method, type BuiltinRoot, type CapabilityCall } from "@iterate-platform/service/capability";
import { capabilityHandlers, capabilityRules } from "@iterate-platform/service/capability-service";
import { createGrpcServer, type GrpcServer } from "@iterate-platform/service/grpc-server";
import { createLog } from "@iterate-platform/service/log";
import { eventually } from "@iterate-platform/testing";
import { freePort } from "@iterate-platform/testing/free-port";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import type { ContextProcess } from "../../services/context/test/context-process.js";
import { Calls } from "./invoke.fixture.js";
import { codeOf, person, useLogService, type Context } from "./log-service.fixture.js";

const service = useLogService();
const root = (): Context => ({ owner: service.owner, path: "/" });
const refusal = (code: string, message: RegExp): unknown =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

let openStreams = 0;

/** Says who called, counts for ever, and has a handle. */
const facets: BuiltinRoot<CapabilityCall> = {
  name: "facets",
  isContextRoot: true,
  description: "A service of the test.",
  instructions: "Ask it.",
  types: "",
  member: group<CapabilityCall>({
    who: method(
      z.tuple([]),
      { signature: "() => Promise<Who>", description: "Who calls.", example: "itx.facets.who()", effect: "read" },
      ({ address, callerPath, caller, credentials }: CapabilityCall) => ({
        address,
        callerPath,
        principal: caller.principal ?? null,
        origin: caller.execution?.context ?? null,
        hasToken: credentials.execution !== undefined,
      }),
    ),
    count: method(
      z.tuple([]),
      { signature: "() => AsyncIterable<number>", description: "Counts.", example: "itx.facets.count()", effect: "read" },
      async function* () {
        openStreams += 1;
        try {
          for (let at = 0; ; at += 1) yield at;
        } finally {
          openStreams -= 1;
        }
      },
    ),
    get: handleMethod(
      z.tuple([z.string()]),
      { signature: "(name: string) => Facet", description: "One.", example: 'itx.facets.get("a").name()', effect: "read" },
      (_call: CapabilityCall, name) => name,
      (ofHandle) => ({
        name: ofHandle(
          z.tuple([]),
          { signature: "() => Promise<string>", description: "Its name.", example: 'itx.facets.get("a").name()', effect: "read" },
          (_call, name) => ({ name }),
        ),
      }),
    ),
  }),
};

let port: number;
let server: GrpcServer | null = null;
let context: ContextProcess;
let calls: Calls;

async function serve(): Promise<void> {
  server = createGrpcServer({
    name: "runner",
    listen: { host: "127.0.0.1", port, variable: "GRPC_LISTEN" },
    log: createLog("runner", { level: "error", write: () => undefined }),
    trust: service.trust("runner"),
  });
  server.add(CapabilityServiceService, capabilityHandlers([facets]), capabilityRules);
  await server.start();
  server.setServing(true);
}

beforeAll(async () => {
  port = await freePort();
  context = await service.startWith({ CAPABILITY_PROVIDERS: `runner=http://127.0.0.1:${port}` });
  const clients = new Map<string, ReturnType<ContextProcess["as"]>>();
  calls = new Calls(service, ({ service: name }) => {
    let made = clients.get(name);
    if (made === undefined) clients.set(name, (made = context.as(name)));
    return made.context;
  });
}, 60_000);

afterAll(async () => {
  await context?.stop();
  await server?.drain(0);
});

describe("a service that answers roots", () => {
  test("that has not been reached yet makes its roots unavailable, by its name, and never unknown", async () => {
    await expect(calls.value(root(), "itx.facets.who()")).rejects.toEqual(refusal("UNAVAILABLE", /runner/));
    await expect(calls.value(root(), "itx.facetts.who()")).rejects.toEqual(refusal("NO_ITX_EXPRESSION_MATCH", /./));
  });

  test("is called for whoever calls, in the context the call was resolved in", async () => {
    await serve();
    const who = await eventually(() => calls.value(root(), "itx.facets.who()").catch(() => undefined), { timeoutMs: 20_000 });
    expect(who).toEqual({ address: root(), callerPath: "/", principal: person.principal, origin: null, hasToken: false });
    expect(await calls.value({ ...root(), path: "/x" }, 'itx.cd("/y").facets.who()', codeOf("/x"))).toEqual({
      address: { ...root(), path: "/y" },
      callerPath: "/x",
      principal: null,
      origin: "/x",
      hasToken: true,
    });
    expect(await calls.value(root(), 'itx.facets.get("a").name().name')).toBe("a");
    await expect(calls.value(root(), 'itx.facets.gett("a").name()')).rejects.toEqual(refusal("NOT_A_METHOD", /did you mean get\?/));
  });

  test("streams through, no faster than it is read, until the reader leaves", async () => {
    const numbers = calls.stream(root(), "itx.facets.count()");
    expect([(await numbers.next()).value, (await numbers.next()).value]).toEqual([0, 1]);
    expect(openStreams).toBe(1);
    await numbers.return(undefined);
    await eventually(() => Promise.resolve(openStreams === 0));
  });

  test("is described with its own words", async () => {
    expect(await calls.value(root(), "itx.describe('itx.facets')")).toMatchObject({
      state: "bound",
      summary: "A service of the test.",
      methods: expect.arrayContaining([expect.objectContaining({ call: "itx.facets.get().name" })]) as unknown,
    });
  });

  test("that goes away is unavailable by its name, and back when it is back", async () => {
    await server!.drain(0);
    await expect(calls.value(root(), "itx.facets.who()")).rejects.toEqual(
      refusal("UNAVAILABLE", /runner, which answers this call, is away/),
    );
    await serve();
    await eventually(() => calls.value(root(), "itx.facets.who()").catch(() => undefined), { timeoutMs: 20_000 });
  });
});
