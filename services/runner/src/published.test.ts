import { createServer } from "node:net";
import { itx, project as projectEvents, repo } from "iterate/events";
import { createLog } from "@iterate-platform/service/log";
import { eventually } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fetchListener } from "./api/fetch-listener.js";
import { TestPlatform, type TestProject } from "./platform.fixture.js";
import { projectFiles, startCodeServices, type CodeServices } from "./published.fixture.js";
import { startRunner, type TestRunner } from "./runner.fixture.js";

let platform: TestPlatform;
let services: CodeServices;
let runner: TestRunner;
let project: TestProject;
let pages: { url: string; headers: () => Promise<Record<string, string>>; stop: () => Promise<unknown> };
let oid: string;

const slow = { timeoutMs: 60_000, intervalMs: 100 };
const tick = (action?: string) => ({ type: "tick", payload: action === undefined ? {} : { do: action } });
const haltedType = itx.subscriptionDeliveryHalted.type;
const settled = (path: string, name: string, offset: number) =>
  runner.snapshots.waitUntilProcessed({ owner: project.owner, path }, name, offset, 60_000, new AbortController().signal);

beforeAll(async () => {
  platform = await TestPlatform.start();
  services = await startCodeServices(platform);
  runner = await startRunner(platform, { env: { ...services.env, DELIVERY_MAX_ATTEMPTS: "3", DELIVERY_RETRY_BASE_MS: "5" } });
  project = platform.project("/repos/config", "/a", "/b");
  await project.append(
    "/",
    { type: projectEvents.projectCreateRequested.type, payload: { slug: "acme" } },
    { type: projectEvents.projectCreated.type, payload: {} },
  );
  await project.subscribe("/repos/config", "publication", {
    consumes: [repo.commitCompleted.type, repo.publicationSettled.type],
    afterOffset: 0,
  });
  const trust = await platform.keys.trustOf("runner");
  const listener = fetchListener(runner.pages, {
    listen: { variable: "HTTP_LISTEN", host: "127.0.0.1", port: 0 },
    log: createLog("runner", { level: "error" }),
    trust,
  });
  const port = await listener.start();
  const ingress = await platform.keys.trustOf("ingress");
  // A service token lives for a minute only.
  const headers = async () => ({ ...(await ingress.headers("runner")), "x-iterate-base-path": "/projects/acme" });
  pages = { url: `http://127.0.0.1:${port}/fetch/${project.owner}`, headers, stop: () => listener.drain(500) };
}, 240_000);

afterAll(async () => {
  await pages?.stop();
  await runner?.stop();
  await services?.stop();
  await platform?.stop();
}, 60_000);

const page = async (path: string, init: RequestInit & { duplex?: "half" } = {}) =>
  fetch(pages.url + path, { ...init, headers: { ...(await pages.headers()), ...(init.headers as Record<string, string>) } });

describe("before anything is published", () => {
  it("[iterate-53] a facet dangles without an attempt, and a page is 404", async () => {
    await project.append("/a", {
      type: itx.subscriptionConfigured.type,
      payload: {
        name: "early",
        target: [
          "itx",
          "facets",
          ["get", "early", { source: ["itx", "config"], module: "scripted.ts", className: "ScriptedDurableObject" }],
        ],
        consumes: ["tick"],
        afterOffset: 0,
      },
    });
    await project.append("/a", tick());
    await eventually(
      () => runner.lines.some(({ message, outcome }) => message === "delivery waits" && outcome === "dangling"),
      slow,
    );
    const answer = await page("/");
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({
      code: "NOT_FOUND",
      detail: "this project has published no page: nothing was pushed to main yet",
    });
  }, 90_000);
});

describe("publication", () => {
  it("moves the pointer and says so in one commit, then configures what iterate.toml declares", async () => {
    oid = await services.commit(project.owner, projectFiles);
    const [updated] = await eventually(async () => {
      const found = await project.events("/", projectEvents.workerUpdated.type);
      return found.length > 0 ? found : null;
    }, slow);
    const [pointer] = await project.events("/", itx.rewriteRuleConfigured.type);
    expect(updated).toMatchObject({
      payload: { commitOid: oid, modules: { "worker.ts": {}, "scripted.ts": { classes: ["ScriptedDurableObject"] } } },
      source: { platform: true, origin: "/repos/config" },
    });
    expect(updated!.offset).toBe(pointer!.offset + 1);
    expect(updated!.createdAt).toBe(pointer!.createdAt);
    await eventually(async () => (await project.events("/repos/config", repo.publicationSettled.type)).length === 1, slow);
    for (const [path, name] of [
      ["/a", "scripted"],
      ["/b", "harmful"],
    ] as const) {
      const rows = await project.events(path, itx.subscriptionConfigured.type);
      expect(rows.at(-1)).toMatchObject({ payload: { name, consumes: ["tick"], afterOffset: 0 } });
    }
    // What dangled is delivered now, its past included.
    await settled("/a", "early", (await project.events("/a", "tick"))[0]!.offset);
  }, 120_000);

  it("[iterate-88] leaves the pointer where it is when a commit does not build, and when its class is missing", async () => {
    const before = (await project.events("/", itx.rewriteRuleConfigured.type)).length;
    await services.commit(project.owner, { "worker.ts": "import missing from './nothing.js'; export default missing;" });
    const failed = await eventually(async () => (await project.events("/", projectEvents.workerUpdateFailed.type))[0], slow);
    expect(failed).toMatchObject({ payload: { error: { code: "BUILD_FAILED" } } });
    // The project's logs say so, too.
    await eventually(
      () =>
        runner.lines.some(
          ({ message, owner, context, code, reason }) =>
            message === "a push is not published" &&
            owner === project.owner &&
            context === "/" &&
            code === "BUILD_FAILED" &&
            String(reason).includes("nothing.js"),
        ),
      slow,
    );
    await services.commit(project.owner, { ...projectFiles, "scripted.ts": "export class Other {}" });
    const second = await eventually(async () => (await project.events("/", projectEvents.workerUpdateFailed.type))[1], slow);
    expect((second.payload as { error: { message: string } }).error.message).toContain("ScriptedDurableObject");
    expect(await project.events("/", itx.rewriteRuleConfigured.type)).toHaveLength(before);
  }, 120_000);

  it("settles a commit of which an attempt that was cut short has spoken in other words", async () => {
    const settledCommits = () => project.events("/repos/config", repo.publicationSettled.type);
    await eventually(async () => (await settledCommits()).length === 3, slow);
    const generation = (await project.events("/repos/config")).at(-1)!.offset + 1;
    await project.append("/", {
      type: projectEvents.workerUpdateFailed.type,
      payload: { commitOid: oid, generation, error: { code: "OFFSET_CONFLICT", message: "main moved on" } },
      idempotencyKey: `project/worker-update-failed:${generation}`,
    });
    await services.commit(project.owner, { "worker.ts": "import missing from './gone.js'; export default missing;" });
    const [, , , last] = await eventually(async () => {
      const found = await settledCommits();
      return found.length === 4 ? found : null;
    }, slow);
    expect(last).toMatchObject({ payload: { requestOffset: generation, status: "failed" } });
  }, 120_000);

  it("removes the rows of processors that are gone, and leaves the others alone", async () => {
    const configured = async (path: string) => (await project.events(path, itx.subscriptionConfigured.type)).length;
    const beforeA = await configured("/a");
    await services.commit(project.owner, {
      ...projectFiles,
      "iterate.toml": projectFiles["iterate.toml"].replace(/\[processors\.harmful\][^[]*/, ""),
    });
    await eventually(async () => (await project.events("/b", itx.subscriptionConfigured.type)).at(-1)?.payload, slow);
    await eventually(
      async () =>
        ((await project.events("/b", itx.subscriptionConfigured.type)).at(-1)!.payload as { target: unknown }).target === null,
      slow,
    );
    expect(await configured("/a")).toBe(beforeA);
    await services.commit(project.owner, projectFiles);
    await eventually(
      async () =>
        ((await project.events("/b", itx.subscriptionConfigured.type)).at(-1)!.payload as { target: unknown }).target !== null,
      slow,
    );
  }, 180_000);

  it.each([
    ['consumes: ["tick"]', 'consumes: ["events.iterate.com/github/webhook-recieved"]', "did you mean"],
    ['"heard"]', '"events.iterate.com/project/created"]', "the platform alone may append"],
  ])(
    "refuses a contract with %s as %s",
    async (written, instead, reason) => {
      const failures = () => project.events("/", projectEvents.workerUpdateFailed.type);
      const before = (await failures()).length;
      const scripted = projectFiles["scripted.ts"].replace(written, instead);
      expect(scripted).not.toBe(projectFiles["scripted.ts"]);
      await services.commit(project.owner, { ...projectFiles, "scripted.ts": scripted });
      const failed = await eventually(async () => (await failures())[before], slow);
      expect((failed.payload as { error: { message: string } }).error.message).toContain(reason);
    },
    120_000,
  );
});

describe("delivery to project code in an isolate", () => {
  it("keeps state and emitted events together, with the code's own log records attributed", async () => {
    const [sent] = await project.append("/a", tick("emit"));
    await settled("/a", "scripted", sent!.offset);
    const emitted = await eventually(
      async () => (await project.events("/a", "a")).find(({ payload }) => (payload as { of?: number }).of === sent!.offset),
      slow,
    );
    expect(emitted.source).toMatchObject({
      origin: "/a",
      cause: { depth: 1 },
      processor: { slug: "scripted", whileProcessing: { offset: sent!.offset } },
    });
    expect(emitted.source.platform).toBeUndefined();
    const { state } = await runner.snapshots.snapshot({ owner: project.owner, path: "/a" }, "scripted");
    expect((state as { seen: number[] }).seen).toContain(sent!.offset);
    await eventually(
      () =>
        runner.lines.some(
          ({ message, owner, context, subscription, source }) =>
            message === `emitting for ${sent!.offset}` &&
            owner === project.owner &&
            context === "/a" &&
            subscription === "scripted" &&
            source === "code",
        ),
      slow,
    );
  }, 90_000);

  it("[iterate-63] [iterate-64] [iterate-65] blocks, goes on after a background failure and a throwing reduce", async () => {
    const sent = await project.append("/a", tick("block"), tick("background"), tick("reduce-throws"), tick());
    await settled("/a", "scripted", sent[3]!.offset);
    await eventually(
      async () =>
        (await project.events("/a", "b")).some(({ payload }) => (payload as { of?: number } | undefined)?.of === sent[0]!.offset),
      slow,
    );
    const { state } = await runner.snapshots.snapshot({ owner: project.owner, path: "/a" }, "scripted");
    const { seen } = state as { seen: number[] };
    expect(seen).toEqual(expect.arrayContaining([sent[0]!.offset, sent[1]!.offset, sent[3]!.offset]));
    expect(seen).not.toContain(sent[2]!.offset);
    await eventually(
      () =>
        runner.lines.some(
          ({ message, context, subscription }) =>
            message === "background work failed" && context === "/a" && subscription === "scripted",
        ),
      slow,
    );
  }, 90_000);

  it("[iterate-66] [iterate-85] repeats a failed delivery whole: its appends are there once, its emit once", async () => {
    const count = async (type: string) => (await project.events("/a", type)).length;
    const [a, b] = [await count("a"), await count("b")];
    const [sent] = await project.append("/a", tick("append-then-fail-once"));
    await settled("/a", "scripted", sent!.offset);
    // Two rows deliver this class in /a; each has keys and an emit of its own.
    await settled("/a", "early", sent!.offset);
    await eventually(async () => (await count("c")) === 2, slow);
    expect([(await count("a")) - a, (await count("b")) - b]).toEqual([2, 2]);
  }, 90_000);

  it("[iterate-84] ends its own echo after nine events with one fact", async () => {
    await project.append("/b", tick("echo"));
    await eventually(async () => (await project.events("/b", itx.loopLimit.type)).length === 1, slow);
    const echoes = (await project.events("/b", "tick")).filter(({ payload }) => (payload as { do?: string }).do === "echo");
    expect(echoes.map(({ source }) => source.cause.depth)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    await settled("/b", "harmful", echoes.at(-1)!.offset);
    expect(await project.events("/b", haltedType)).toEqual([]);
  }, 120_000);

  it("reaches its project through itx, and nothing else", async () => {
    const [sent] = await project.append("/b", tick("itx"));
    await settled("/b", "harmful", sent!.offset);
    const heard = await eventually(async () => (await project.events("/b", "heard"))[0], slow);
    expect(heard.payload).toEqual({
      whoami: { projectId: project.owner, projectSlug: "acme", path: "/b" },
      written: { offset: expect.any(Number), origin: "/b", path: "/b" },
      read: 1,
      waited: sent!.offset,
      snapshot: "NO_FACET",
      unknown: "NOT_A_METHOD",
      reserved: "FORBIDDEN",
      platform: "FORBIDDEN",
      builtins: "FORBIDDEN",
      outside: 403,
    });
  }, 90_000);

  it("calls expressions by its context's rules, as itself; what a repeated call appends is there once", async () => {
    const heard = async () => (await project.events("/b", "heard")).map(({ payload }) => payload);
    const before = (await heard()).length;
    const [sent] = await project.append("/b", tick("invoke-then-fail-once"));
    await settled("/b", "harmful", sent!.offset);
    await eventually(async () => (await heard()).length > before, slow);
    expect((await heard()).at(-1)).toEqual({
      called: { origin: "/b" },
      path: "/b",
      nothing: null,
      described: "bound",
      builtins: "FORBIDDEN",
      stream: "INVALID_INPUT",
      unknown: "NO_ITX_EXPRESSION_MATCH",
      text: "INVALID_INPUT",
    });
    expect(await project.events("/", "called")).toHaveLength(1);
  }, 90_000);

  it("[iterate-50] [iterate-49] halts at once on a permanent failure, after its attempts on another, and resumes past it", async () => {
    const lines = projectFiles["scripted.ts"].split("\n");
    for (const [action, attempts, code, thrown] of [
      ["permanent", 1, "PERMANENT_FAILURE", 'new Error("never")'],
      ["always-throw", 3, "CODE_FAILED", 'new Error("always")'],
    ] as const) {
      const halts = (await project.events("/b", haltedType)).length;
      const [sent] = await project.append("/b", tick(action));
      const fact = await eventually(async () => (await project.events("/b", haltedType))[halts], slow);
      expect(fact).toMatchObject({ payload: { name: "harmful", offset: sent!.offset, attempts, error: { code } } });
      // The stack names the line of the source.
      const line = lines.findIndex((text) => text.includes(thrown)) + 1;
      expect((fact.payload as { error: { stack: string } }).error.stack).toContain(`scripted.ts:${line}:`);
      await project.append("/b", {
        type: itx.subscriptionDeliveryResumed.type,
        payload: { name: "harmful", afterOffset: sent!.offset },
      });
    }
  }, 120_000);

  it("ends code that holds the processor; it pays alone while its neighbours go on, and halts with a typed code", async () => {
    const halts = (await project.events("/b", haltedType)).length;
    const [loop] = await project.append("/b", tick("loop"));
    const [other] = await project.append("/a", tick("emit"));
    await settled("/a", "scripted", other!.offset);
    const fact = await eventually(async () => (await project.events("/b", haltedType))[halts], slow);
    expect(fact).toMatchObject({ payload: { name: "harmful", offset: loop!.offset, attempts: 3, error: { code: "ISOLATE_CPU" } } });
    expect(await project.events("/a", haltedType)).toEqual([]);
    await project.append("/b", {
      type: itx.subscriptionDeliveryResumed.type,
      payload: { name: "harmful", afterOffset: loop!.offset },
    });
    const [last] = await project.append("/b", tick());
    await settled("/b", "harmful", last!.offset);
  }, 180_000);
});

describe("a process that ends under several deliveries", () => {
  it("charges nobody that was not alone in it: the innocent one is tried alone and delivered once", async () => {
    const halts = (await project.events("/b", haltedType)).length;
    const [slowOne] = await project.append("/a", tick("slow"));
    const [loop] = await project.append("/b", tick("loop"));
    await settled("/a", "scripted", slowOne!.offset);
    const lost = runner.lines.filter(
      ({ message, code, throughOffset, context }) =>
        message === "delivery failed" && code === "ISOLATE_LOST" && context === "/a" && throughOffset === slowOne!.offset,
    );
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.every(({ outcome, verdict }) => outcome === "killed" && verdict === "retry")).toBe(true);
    expect(await project.events("/a", haltedType)).toEqual([]);
    const fact = await eventually(async () => (await project.events("/b", haltedType))[halts], slow);
    expect(fact).toMatchObject({ payload: { offset: loop!.offset, attempts: 3, error: { code: "ISOLATE_CPU" } } });
    await settled("/a", "early", slowOne!.offset);
    await eventually(
      async () =>
        (await project.events("/a", "b")).filter(
          ({ payload }) => (payload as { slow?: number } | undefined)?.slow === slowOne!.offset,
        ).length === 2,
      slow,
    );
  }, 180_000);
});

describe("project pages", () => {
  it("answers by the published default export, which sees its own address and headers", async () => {
    const hello = await page("/some/where?x=1", { headers: { "x-forwarded-host": "acme.example" } });
    expect([hello.status, await hello.text()]).toEqual([200, "hello from /some/where"]);
    const state = (await (await page("/state")).json()) as { offset: number; state: { seen: number[] } };
    expect(state.state.seen.length).toBeGreaterThan(0);
  }, 60_000);

  it("streams both ways", async () => {
    const { readable, writable } = new TransformStream<Uint8Array>();
    const writer = writable.getWriter();
    const sending = writer.write(Buffer.from("first "));
    const answer = await page("/echo", { method: "POST", body: readable, duplex: "half" });
    const reader = answer.body!.getReader();
    const first = await reader.read();
    expect(Buffer.from(first.value).toString()).toBe("first ");
    await sending;
    await writer.write(Buffer.from("second"));
    await writer.close();
    expect(Buffer.from((await reader.read()).value).toString()).toBe("second");
    expect(answer.headers.get("x-method")).toBe("POST");
    expect(answer.headers.get("x-base")).toBe("/projects/acme");
  }, 60_000);

  it("writes what a request writes as often as it writes it", async () => {
    expect(await (await page("/visit")).text()).toBe("noted");
    expect(await (await page("/visit")).text()).toBe("noted");
    const visits = await project.events("/", "visit");
    expect(visits).toHaveLength(4);
    expect(visits[0]).toMatchObject({ source: { origin: "/", cause: { depth: 0 } } });
  }, 60_000);

  it("tells a visitor that the code failed, not what it said; the log has both", async () => {
    const answer = await page("/throw");
    expect(answer.status).toBe(500);
    const text = await answer.text();
    expect(JSON.parse(text)).toMatchObject({ code: "CODE_FAILED" });
    expect(text).not.toContain("secret of the project");
    await eventually(
      () => runner.lines.some(({ message, reason }) => message === "a project's page failed" && reason === "secret of the project"),
      slow,
    );
  }, 60_000);

  it.each([
    ["a caller that is not ingress", async () => (await platform.keys.trustOf("bundler")).headers("runner"), 403],
    ["nobody", async () => ({}), 401],
  ])("refuses %s", async (_, headersOf, status) => {
    expect((await fetch(`${pages.url}/`, { headers: await headersOf() })).status).toBe(status);
  });

  it("is 503 with a hint when the isolate pod is away", async () => {
    const gone = createServer();
    await new Promise<void>((resolve) => gone.listen(0, "127.0.0.1", resolve));
    const port = (gone.address() as { port: number }).port;
    await new Promise<void>((resolve) => gone.close(() => resolve()));
    const lonely = await startRunner(platform, {
      env: { ...services.env, ISOLATE_URL: `http://127.0.0.1:${port}`, ISOLATE_HTTP_URL: `http://127.0.0.1:${port}` },
    });
    const listener = fetchListener(lonely.pages, {
      listen: { variable: "HTTP_LISTEN", host: "127.0.0.1", port: 0 },
      log: createLog("runner", { level: "error" }),
      trust: await platform.keys.trustOf("runner"),
    });
    try {
      const answer = await fetch(`http://127.0.0.1:${await listener.start()}/fetch/${project.owner}/`, {
        headers: await pages.headers(),
      });
      expect(answer.status).toBe(503);
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    } finally {
      await listener.drain(0);
      await lonely.stop();
    }
  }, 60_000);
});
