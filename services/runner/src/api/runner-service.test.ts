import { DeliveryStatus, RunnerServiceClient, RunnerServiceService } from "@iterate-platform/proto/iterate/runner/v1/runner";
import { createClient } from "@iterate-platform/service/grpc-client";
import { createGrpcServer, type GrpcServer } from "@iterate-platform/service/grpc-server";
import { createLog } from "@iterate-platform/service/log";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { eventually } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startService, TestPlatform, type TestProject } from "../platform.fixture.js";
import { Counter, Scripted, startRunner, type TestRunner } from "../runner.fixture.js";
import { runnerServiceHandlers, runnerServiceRules } from "./runner-service.js";

let platform: TestPlatform;
let runner: TestRunner;
let db: Pool;
let server: GrpcServer;
let url: string;
let project: TestProject;

const clientOf = async (service: string) =>
  createClient(RunnerServiceClient, url, { trust: await platform.keys.trustOf(service), audience: "runner" });
let client: Awaited<ReturnType<typeof clientOf>>;

beforeAll(async () => {
  platform = await TestPlatform.start();
  const fails = () => new Scripted(() => Promise.reject(new Error("no")));
  runner = await startRunner(platform, {
    env: { DELIVERY_MAX_ATTEMPTS: "1" },
    processors: { counter: () => new Counter(), fails },
  });
  db = createPool({ url: platform.runnerDatabase.url, applicationName: "api", max: 2 });
  server = createGrpcServer({
    name: "runner",
    listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port: 0 },
    log: createLog("runner", { level: "error" }),
    trust: await platform.keys.trustOf("runner"),
  });
  server.add(RunnerServiceService, runnerServiceHandlers(db, runner.snapshots), runnerServiceRules);
  url = `http://127.0.0.1:${await server.start()}`;
  client = await clientOf("ingress");
  project = platform.project("/a", "/b");
});
afterAll(async () => {
  client.close();
  await server.drain(0);
  await runner.stop();
  await db.end(0);
  await platform.stop();
});

describe("what other services ask the runner", () => {
  it("answers the committed state of a processor and waits for its progress", async () => {
    await project.subscribe("/a", "counter", { afterOffset: 0 });
    const [tick] = await project.append("/a", { type: "tick" });
    const context = { owner: project.owner, path: "/a" };
    const { offset } = await client.waitUntilProcessed(
      { context, name: "counter", offset: BigInt(tick!.offset), timeoutMs: 20_000 },
      { deadlineMs: 30_000 },
    );
    expect(offset).toBeGreaterThanOrEqual(BigInt(tick!.offset));
    const snapshot = await client.getSnapshot({ context, name: "counter" });
    expect(snapshot.version).toBe("1");
    expect(JSON.parse(snapshot.state!.toString())).toEqual({ count: 1, offsets: [tick!.offset] });
  }, 60_000);

  it("lists where subscriptions stand, page by page, in the order of path and name", async () => {
    await project.subscribe("/b", "fails");
    await project.append("/b", { type: "tick" });
    const list = (pageToken: string, path = "") => client.listDeliveries({ owner: project.owner, path, pageToken, pageSize: 1 });
    await eventually(async () => (await list("", "/b")).deliveries[0]?.status === DeliveryStatus.DELIVERY_STATUS_HALTED, {
      timeoutMs: 20_000,
    });
    const first = await list("");
    const second = await list(first.nextPageToken);
    expect(
      [first, second].map(({ deliveries }) =>
        deliveries.map(({ context, name, status, errorCode }) => [context?.path, name, status, errorCode]),
      ),
    ).toEqual([
      [["/a", "counter", DeliveryStatus.DELIVERY_STATUS_ACTIVE, ""]],
      [["/b", "fails", DeliveryStatus.DELIVERY_STATUS_HALTED, "INTERNAL"]],
    ]);
    expect(second.nextPageToken).toBe("");
  }, 60_000);

  it.each([
    [
      "a processor that is not there",
      () => client.getSnapshot({ context: { owner: project.owner, path: "/a" }, name: "nobody" }),
      "NO_FACET",
    ],
    [
      "a path that is none",
      () => client.getSnapshot({ context: { owner: project.owner, path: "a" }, name: "counter" }),
      "INVALID_CONTEXT",
    ],
    ["no context", () => client.getSnapshot({ context: undefined, name: "counter" }), "INVALID_INPUT"],
    ["201 rows", () => client.listDeliveries({ owner: project.owner, path: "", pageToken: "", pageSize: 201 }), "INVALID_INPUT"],
    [
      "a token of its own making",
      () => client.listDeliveries({ owner: project.owner, path: "", pageToken: "e30", pageSize: 1 }),
      "INVALID_INPUT",
    ],
    [
      "a wait of more than a minute",
      () =>
        client.waitUntilProcessed({
          context: { owner: project.owner, path: "/a" },
          name: "counter",
          offset: 1n,
          timeoutMs: 60_001,
        }),
      "INVALID_INPUT",
    ],
    [
      "[iterate-74] a wait that is not answered in time",
      () =>
        client.waitUntilProcessed({
          context: { owner: project.owner, path: "/a" },
          name: "counter",
          offset: 1_000_000n,
          timeoutMs: 50,
        }),
      "WAIT_TIMEOUT",
    ],
  ])(
    "refuses %s",
    async (_, call, code) => {
      await expect(call()).rejects.toMatchObject({ code });
    },
    30_000,
  );

  it("tells code of its own project alone, by whichever method", async () => {
    const trust = await platform.keys.trustOf("runner");
    const tokenOf = (owner: string) =>
      trust.mintExecution({
        owner,
        context: "/",
        code: "config@1",
        partition: 0,
        epoch: 1,
        cause: { chain: "a chain", depth: 0 },
        scope: [],
        exp: Math.floor(Date.now() / 1_000) + 60,
      });
    const context = { owner: project.owner, path: "/a" };
    const ask = (execution: string) => [
      client.getSnapshot({ context, name: "counter" }, { execution }),
      client.waitUntilProcessed({ context, name: "counter", offset: 0n, timeoutMs: 1_000 }, { execution }),
      client.listDeliveries({ owner: project.owner, path: "", pageToken: "", pageSize: 1 }, { execution }),
    ];
    await Promise.all(ask(await tokenOf(project.owner)));
    for (const asked of ask(await tokenOf(platform.project().owner)))
      await expect(asked).rejects.toMatchObject({ code: "FORBIDDEN" });
  }, 30_000);

  it("takes 200 rows, and refuses a service that has no business here", async () => {
    await client.listDeliveries({ owner: project.owner, path: "", pageToken: "", pageSize: 200 });
    const stranger = await clientOf("bundler");
    await expect(stranger.listDeliveries({ owner: project.owner, path: "", pageToken: "", pageSize: 1 })).rejects.toMatchObject({
      code: "FORBIDDEN",
    });
    stranger.close();
  });
});

describe("the runner as a process", () => {
  it("serves, becomes ready without any peer, and ends in good order", async () => {
    const process = await startService("runner/src/main.ts", {
      DATABASE_URL: platform.runnerDatabase.url,
      NATS_URL: "nats://127.0.0.1:1",
      CONTEXT_URL: "http://127.0.0.1:1",
      GRPC_LISTEN: "127.0.0.1:0",
      HTTP_LISTEN: "127.0.0.1:0",
      ADMIN_LISTEN: "127.0.0.1:0",
      ITERATE_SERVICE_KEY_FILE: platform.keys.keyFile("runner"),
      ITERATE_TRUSTED_KEYS_FILE: platform.keys.trustedKeysFile,
    });
    await eventually(async () => (await fetch(`http://127.0.0.1:${process.ports["admin"]}/readyz`)).status === 200, {
      timeoutMs: 20_000,
    });
    expect(await (await fetch(`http://127.0.0.1:${process.ports["admin"]}/metrics`)).text()).toContain("iterate_runner_partitions");
    await process.end();
    expect(process.lines.some((line) => line.includes('"level":"error"'))).toBe(false);
  }, 90_000);
});
