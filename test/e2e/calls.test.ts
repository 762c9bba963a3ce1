/** Calls of expressions through every door of a whole platform: a session, public gRPC, and the runner's own root at the other end. */
import { credentials, Metadata } from "@grpc/grpc-js";
import { ContextServiceClient, type DescribeResponse } from "@iterate-platform/proto/iterate/context/v1/context";
import type { ResultPart } from "@iterate-platform/proto/iterate/type/v1/invocation";
import { readResult } from "@iterate-platform/service/invocation-result";
import { startStack, type Stack } from "@iterate-platform/local";
import { eventually } from "@iterate-platform/testing";
import type { ProjectInfo } from "iterate/api";
import type { IterateConnection } from "iterate/node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect } from "./client.js";

let stack: Stack;
let connection: IterateConnection;
let project: ProjectInfo;

beforeAll(async () => {
  stack = await startStack({ state: "temporary", portBase: "auto" });
  connection = await connect(stack);
  project = await connection.session.projects.create({ slug: "calls" });
}, 180_000);

afterAll(async () => {
  // Neither is there when the stack did not start.
  (connection as IterateConnection | undefined)?.[Symbol.dispose]();
  await (stack as Stack | undefined)?.stop();
}, 60_000);

describe("a session", () => {
  test("calls at a context, as its principal, and describes what it may call", async () => {
    using context = await connection.session.projects.get("calls").cd("/a");
    expect(await context.invoke("itx.whoami()")).toEqual({ projectId: project.id, projectSlug: "calls", path: "/a" });
    const [event] = (await context.invoke("itx.append", { type: "acme/made" })) as { source: { principal: string } }[];
    expect(event!.source.principal).toBe("admin");
    expect(await context.invoke("itx.url()")).toBe(project.url);
    expect((await context.describe("itx.append")).methods[0]).toMatchObject({ call: "itx.append" });
  });

  test("reaches the root that the runner answers, for the context it calls at", async () => {
    using root = await connection.session.projects.get("calls");
    // The runner lists its roots to a process of the context service soon after both are there.
    const failure = await eventually(
      () =>
        root.invoke('itx.facets.get("nobody").snapshot()').catch((error: unknown) => {
          const { code } = error as { code?: string };
          return code === "UNAVAILABLE" ? undefined : code;
        }),
      { timeoutMs: 30_000 },
    );
    expect(failure).toBe("NO_FACET");
    expect(await root.describe("itx.facets")).toMatchObject({ state: "bound", mayCall: true });
  });

  test("takes a stream item by item while it happens, until it lets it go", async () => {
    using context = await connection.session.projects.get("calls").cd("/stream");
    await context.append({ type: "acme/one" });
    const seen: string[] = [];
    const { stream } = await context.call({
      expression: "itx.streamEvents({afterOffset: 0})",
      onItem: (item) => void seen.push(...(item as { events: { type: string }[] }).events.map(({ type }) => type)),
    });
    await eventually(() => Promise.resolve(seen.includes("acme/one")));
    await context.append({ type: "acme/two" });
    await eventually(() => Promise.resolve(seen.includes("acme/two")));
    stream![Symbol.dispose]();
  });
});

describe("public gRPC", () => {
  const metadata = (): Metadata => {
    const bearer = new Metadata();
    bearer.set("authorization", `Bearer ${stack.adminToken}`);
    return bearer;
  };
  const deadline = () => ({ deadline: Date.now() + 10_000 });

  test("calls and describes for the bearer, and takes no keys that are for code", async () => {
    const client = new ContextServiceClient(`127.0.0.1:${stack.ports.of("public-grpc")}`, credentials.createInsecure());
    const context = { owner: project.id, path: "/" };
    const expression = { form: { $case: "text" as const, value: 'itx.cd("/b").whoami().path' } };
    const call = async (keyScope: string): Promise<unknown> => {
      const responses = client.invoke({ context, expression, keyScope }, metadata(), deadline());
      const parts = async function* (): AsyncGenerator<ResultPart | undefined> {
        for await (const { part } of responses as AsyncIterable<{ part?: ResultPart }>) yield part;
      };
      return await readResult(parts());
    };
    expect(await call("")).toEqual({ kind: "value", value: "/b" });
    await expect(call("scope")).rejects.toMatchObject({ code: 3 });
    const described = await new Promise<DescribeResponse>((resolve, reject) =>
      client.describe({ context, expression: undefined }, metadata(), deadline(), (error, response) =>
        error === null ? resolve(response) : reject(error),
      ),
    );
    expect(described.entries.map(({ expression: entry }) => entry)).toEqual(
      expect.arrayContaining(["itx.kv", "itx.facets", "itx.append"]),
    );
    client.close();
  });
});
