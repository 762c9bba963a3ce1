/** What comes from outside: public gRPC, webhooks that may not be taken, pushes that may not be published. */
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { HealthClient, HealthCheckResponse_ServingStatus as ServingStatus } from "@iterate-platform/proto/grpc/health/v1/health";
import {
  ContextServiceClient,
  type AppendRequest,
  type AppendResponse,
  type ReadEventsResponse,
} from "@iterate-platform/proto/iterate/context/v1/context";
import { exampleDeliveries, post, pushFolder, startStack, type Stack } from "@iterate-platform/local";
import { eventually } from "@iterate-platform/testing";
import type { IterateConnection } from "iterate/node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connect, pushed, readAll, type Pushed } from "./client.js";

const run = promisify(execFile);

let stack: Stack;
let connection: IterateConnection;
let counter: Pushed;

beforeAll(async () => {
  stack = await startStack({ state: "temporary", portBase: "auto" });
  connection = await connect(stack);
  counter = await pushed(stack, connection, "edge", "counter");
}, 180_000);

afterAll(async () => {
  // Neither is there when the stack did not start.
  (connection as IterateConnection | undefined)?.[Symbol.dispose]();
  await (stack as Stack | undefined)?.stop();
}, 60_000);

describe("public gRPC", () => {
  const address = () => `127.0.0.1:${stack.ports.of("public-grpc")}`;
  const bearer = (token: string) => {
    const metadata = new Metadata();
    metadata.set("authorization", `Bearer ${token}`);
    return metadata;
  };
  const deadline = () => ({ deadline: Date.now() + 10_000 });
  const append = (client: ContextServiceClient, request: AppendRequest, token: string) =>
    new Promise<AppendResponse>((resolve, reject) => {
      client.append(request, bearer(token), deadline(), (error, response) => (error === null ? resolve(response) : reject(error)));
    });
  const request = (owner: string): AppendRequest => ({
    context: { owner, path: "/from/another/team" },
    appendId: "",
    events: [
      {
        type: "events.example.com/order/placed",
        payload: Buffer.from('{"big": 9007199254740993, "text":"\\u0000"}'),
        metadata: undefined,
        idempotencyKey: "order-1",
        expectedOffset: undefined,
        processor: undefined,
        ephemeral: false,
        formatVersion: 0,
      },
    ],
  });

  test("appends and reads for the bearer, byte for byte, as that principal", async () => {
    const client = new ContextServiceClient(address(), credentials.createInsecure());
    const { receipts } = await append(client, request(counter.info.id), stack.adminToken);
    expect(receipts).toMatchObject([{ offset: 2n, existing: false }]);
    const again = await append(client, request(counter.info.id), stack.adminToken);
    expect(again.receipts).toMatchObject([{ offset: 2n, existing: true }]);
    const page = await new Promise<ReadEventsResponse>((resolve, reject) => {
      const ask = {
        context: { owner: counter.info.id, path: "/from/another/team" },
        afterOffset: 1n,
        limit: 10,
        types: [],
        includeEphemeral: false,
      };
      client.readEvents(ask, bearer(stack.adminToken), deadline(), (error, response) =>
        error === null ? resolve(response) : reject(error),
      );
    });
    expect(page.events[0]?.payload?.toString()).toBe('{"big": 9007199254740993, "text":"\\u0000"}');
    expect(page.events[0]?.source).toMatchObject({ principal: "admin", platform: false, origin: "/" });
    client.close();
  });

  test("refuses a wrong bearer, and a person who writes what the platform alone may", async () => {
    const client = new ContextServiceClient(address(), credentials.createInsecure());
    await expect(append(client, request(counter.info.id), "wrong")).rejects.toMatchObject({
      code: 16,
    } satisfies Partial<ServiceError>);
    const forged = request(counter.info.id);
    for (const event of forged.events) event.type = "events.iterate.com/itx/created";
    await expect(append(client, forged, stack.adminToken)).rejects.toMatchObject({ code: 7 } satisfies Partial<ServiceError>);
    client.close();
  });

  test("says that it serves", async () => {
    const health = new HealthClient(address(), credentials.createInsecure());
    const status = await new Promise((resolve, reject) => {
      health.check({ service: "iterate.context.v1.ContextService" }, (error, response) =>
        error === null ? resolve(response.status) : reject(error),
      );
    });
    expect(status).toBe(ServingStatus.SERVING);
    health.close();
  });
});

describe("webhooks", () => {
  test(
    "with context away nothing is acknowledged, and the same delivery is taken once it is back",
    { timeout: 90_000 },
    async () => {
      const endpoint = await counter.project.webhooks.create({ provider: "github", name: "away" });
      const [delivery] = exampleDeliveries("away");
      if (delivery === undefined) throw new Error("there is no example");
      await stack.process("context").stop();
      expect(await post(endpoint.url, endpoint.secret, delivery)).toMatchObject({ status: 503 });
      stack.process("context").start();
      await stack.ready("context");
      await eventually(async () => (await post(endpoint.url, endpoint.secret, delivery)).outcome === "accepted", {
        timeoutMs: 20_000,
        intervalMs: 100,
      });
      const context = await counter.project.cd("/integrations/github/away");
      expect((await readAll(context)).filter((event) => event.type.endsWith("/webhook-received"))).toHaveLength(1);
    },
  );

  test("an address that is no endpoint is a problem of its own", async () => {
    const response = await fetch(
      `http://localhost:${stack.ports.of("public-http")}/api/integrations/github/webhook/${"0".repeat(32)}`,
      { method: "POST", body: "{}" },
    );
    expect(response.status).toBe(404);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
  });
});

describe("project pages", () => {
  // The suite above restarted context: the runner finds it again within its backoff, and answers 503 until then.
  beforeAll(async () => {
    await eventually(async () => (await fetch(counter.info.url)).status === 200, { timeoutMs: 20_000, intervalMs: 100 });
  });

  test("code sees the request as the client made it, and no credential of the platform", async () => {
    const response = await fetch(`${counter.info.url}request?a=1`, {
      method: "POST",
      body: "hello",
      headers: { authorization: "Bearer of-the-project", cookie: "a=1", "x-iterate-principal": "root", "x-own": "2" },
    });
    expect(response.status).toBe(200);
    const seen = (await response.json()) as { href: string; headers: Record<string, string>; body: string };
    expect(new URL(seen.href)).toMatchObject({ host: new URL(counter.info.url).host, pathname: "/request", search: "?a=1" });
    expect(seen.body).toBe("hello");
    expect(seen.headers).toMatchObject({
      authorization: "Bearer of-the-project",
      "x-own": "2",
      "x-iterate-base-path": "/projects/edge",
    });
    expect(Object.keys(seen.headers)).not.toEqual(expect.arrayContaining(["cookie"]));
    expect(JSON.stringify(seen.headers)).not.toMatch(/root|eyJ/);
  });

  test("a project that does not exist, and one that published nothing, have no page", async () => {
    await connection.session.projects.create({ slug: "empty" });
    for (const slug of ["nobody", "empty"]) expect((await fetch(counter.info.url.replace("edge", slug))).status).toBe(404);
  });
});

describe("pushes", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "edge-push-"));
    await cp(join(import.meta.dirname, "projects/counter"), folder, { recursive: true });
  });
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  test("code that does not build is refused by name, and what was published stays", { timeout: 60_000 }, async () => {
    const info = await connection.session.projects.create({ slug: "breaks" });
    using project = await connection.session.projects.get("breaks");
    await writeFile(join(folder, "counter.ts"), 'import { x } from "left-pad";\nexport class CounterDurableObject { y = x }\n');
    const { oid } = await pushFolder(folder, info.gitUrl, stack.adminToken, "Does not build");
    const failed = await project.waitForEvent({
      type: "events.iterate.com/project/worker-update-failed",
      payload: { commitOid: oid },
      afterOffset: 0,
      timeoutMs: 40_000,
    });
    expect(JSON.stringify(failed.payload)).toMatch(/left-pad.*|counter\.ts/);
    expect((await fetch(info.url)).status, "nothing was ever published").toBe(404);
  });

  test("a wrong token is refused by git itself", async () => {
    const attempt = run("git", ["ls-remote", counter.info.gitUrl.replace("://", "://token:wrong@")], {
      env: { PATH: process.env.PATH, GIT_TERMINAL_PROMPT: "0" },
    });
    await expect(attempt).rejects.toThrow(/Authentication failed|401/);
  });
});
