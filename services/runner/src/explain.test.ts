/** Why things are, or are not, done, asked of a whole deployment in which one thing after the other is broken. */
import { ContextServiceClient, ReasonKind, type ExplainRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { RunnerServiceService } from "@iterate-platform/proto/iterate/runner/v1/runner";
import { createClient } from "@iterate-platform/service/grpc-client";
import { createGrpcServer, type GrpcServer } from "@iterate-platform/service/grpc-server";
import { createLog } from "@iterate-platform/service/log";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { eventually, freePort } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { codedError } from "iterate/lib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runnerServiceHandlers, runnerServiceRules } from "./api/runner-service.js";
import { TestPlatform, type TestProject } from "./platform.fixture.js";
import { Counter, Scripted, startRunner, type TestRunner } from "./runner.fixture.js";

let platform: TestPlatform;
let runner: TestRunner;
let db: Pool;
let port: number;
let server: GrpcServer;
const clientOf = async () =>
  createClient(ContextServiceClient, platform.contextUrl, { trust: await platform.keys.trustOf("ingress"), audience: "context" });
let client: Awaited<ReturnType<typeof clientOf>>;

beforeAll(async () => {
  port = await freePort();
  platform = await TestPlatform.start(undefined, { CAPABILITY_PROVIDERS: `runner=http://127.0.0.1:${port}` });
  runner = await startRunner(platform, {
    env: { DELIVERY_MAX_ATTEMPTS: "2", DELIVERY_RETRY_BASE_MS: "60000" },
    processors: {
      counter: () => new Counter(),
      fails: () => new Scripted(() => Promise.reject(new Error("out of paper"))),
      refuses: () => new Scripted(() => Promise.reject(codedError("PERMANENT_FAILURE", "out of ink"))),
    },
  });
  db = createPool({ url: platform.runnerDatabase.url, applicationName: "api", max: 2 });
  client = await clientOf();
  server = await serve();
});
afterAll(async () => {
  client.close();
  await server.drain(0);
  await runner.stop();
  await db.end(0);
  await platform.stop();
});

async function serve(): Promise<GrpcServer> {
  const made = createGrpcServer({
    name: "runner",
    listen: { variable: "GRPC_LISTEN", host: "127.0.0.1", port },
    log: createLog("runner", { level: "error" }),
    trust: await platform.keys.trustOf("runner"),
  });
  made.add(RunnerServiceService, runnerServiceHandlers(db, runner.snapshots), runnerServiceRules);
  await made.start();
  return made;
}

type Subject = NonNullable<ExplainRequest["subject"]>;
const explain = (project: TestProject, subject: Subject) =>
  client.explain({ context: { owner: project.owner, path: "/a" }, subject }, { deadlineMs: 10_000 });
const event = (offset: number): Subject => ({ $case: "eventOffset", value: BigInt(offset) });
const subscription = (value: string): Subject => ({ $case: "subscription", value });
const slow = { timeoutMs: 20_000, intervalMs: 100 };

/** Asks until the first reason is of a kind. */
async function explained(project: TestProject, subject: Subject, kind: ReasonKind) {
  return eventually(async () => {
    const answer = await explain(project, subject);
    expect(answer.reasons[0]?.kind, answer.reasons[0]?.sentence).toBe(kind);
    return answer;
  }, slow);
}

describe("an explanation", () => {
  it("of an event names every subscription that takes it, and where each stands", { timeout: 60_000 }, async () => {
    const project = platform.project("/a");
    await project.subscribe("/a", "counter", { consumes: ["tick"] });
    await project.subscribe("/a", "fails", { consumes: ["tick"] });
    const [tick, other] = await project.append("/a", { type: "tick" }, { type: "other" });
    const { done, reasons, headOffset, away } = await eventually(async () => {
      const answer = await explain(project, event(tick!.offset));
      expect(answer.reasons.map(({ kind }) => kind)).toEqual([ReasonKind.REASON_KIND_DONE, ReasonKind.REASON_KIND_RETRYING]);
      return answer;
    }, slow);
    expect({ done, headOffset, away }).toEqual({ done: false, headOffset: BigInt(other!.offset), away: [] });
    expect(reasons[1]).toMatchObject({ subject: 'subscription "fails"', attempts: 1, owner: runner.pod });
    expect(reasons[1]!.errorMessage).toContain("out of paper");
    expect(reasons[1]!.dueAtUs).toBeGreaterThan(BigInt(Date.now()) * 1_000n);
    await eventually(async () => {
      expect(await explain(project, event(other!.offset))).toMatchObject({
        done: true,
        reasons: [
          { kind: ReasonKind.REASON_KIND_NOBODY, sentence: expect.stringContaining("none of the 2 subscriptions") as string },
        ],
      });
      expect(await explain(project, subscription("counter"))).toMatchObject({
        done: true,
        reasons: [{ kind: ReasonKind.REASON_KIND_DONE }],
      });
      return true;
    }, slow);
  });

  it("names a halt, since when and why, and a pause", { timeout: 60_000 }, async () => {
    const project = platform.project("/a");
    await project.subscribe("/a", "refuses", { consumes: ["tick"] });
    const [tick] = await project.append("/a", { type: "tick" });
    // The runner halts first and records it next.
    const since = `since offset ${tick!.offset + 1}`;
    await eventually(async () => (await explain(project, subscription("refuses"))).reasons[0]?.sentence.includes(since), slow);
    await project.append("/a", { type: itx.paused.type, payload: { reason: "full" } });
    const { done, reasons } = await explain(project, subscription("refuses"));
    expect(done).toBe(false);
    expect(reasons).toMatchObject([
      {
        kind: ReasonKind.REASON_KIND_HALTED,
        sentence: expect.stringContaining(since) as string,
        errorMessage: expect.stringContaining("out of ink") as string,
      },
      { kind: ReasonKind.REASON_KIND_PAUSED, sentence: expect.stringContaining("(full)") as string },
    ]);
  });

  it("names a target that does not exist", { timeout: 60_000 }, async () => {
    const project = platform.project("/a");
    await project.subscribe("/a", "lost", { processor: "nobody" });
    const [tick] = await project.append("/a", { type: "tick" });
    const { reasons } = await explained(project, event(tick!.offset), ReasonKind.REASON_KIND_DANGLING);
    expect(reasons[0]!.sentence).toContain("nobody");
  });

  it("says when a schedule is due, and that it waits while its context is paused", { timeout: 60_000 }, async () => {
    const project = platform.project("/a");
    const at = new Date(Date.now() + 3_600_000).toISOString();
    const set = (key: string, when: object) => ({ type: itx.scheduleSet.type, payload: { key, when, events: [{ type: "tick" }] } });
    await project.append("/a", set("once", { at }), set("hourly", { everyMs: 3_600_000 }));
    const schedule = (value: string): Subject => ({ $case: "schedule", value });
    expect(await explain(project, schedule("once"))).toMatchObject({
      done: false,
      reasons: [{ kind: ReasonKind.REASON_KIND_NOT_DUE, sentence: `it is due at ${at}`, dueAtUs: BigInt(Date.parse(at)) * 1_000n }],
    });
    const [hourly] = (await explain(project, schedule("hourly"))).reasons;
    expect(hourly).toMatchObject({ kind: ReasonKind.REASON_KIND_NOT_DUE });
    expect(Number(hourly!.dueAtUs / 1_000n) - Date.now()).toBeGreaterThan(3_500_000);
    await project.append("/a", { type: itx.paused.type, payload: {} });
    expect((await explain(project, schedule("once"))).reasons.map(({ kind }) => kind)).toEqual([
      ReasonKind.REASON_KIND_PAUSED,
      ReasonKind.REASON_KIND_NOT_DUE,
    ]);
    await expect(explain(project, schedule("twice"))).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: expect.stringContaining('it has "hourly", "once"') as string,
    });
  });

  it("says of a run who took it up, and where it ended", { timeout: 60_000 }, async () => {
    const project = platform.project("/a");
    const [asked] = await project.append("/a", { type: itx.runRequested.type, payload: { code: "1" } });
    const run: Subject = { $case: "runOffset", value: BigInt(asked!.offset) };
    expect((await explained(project, run, ReasonKind.REASON_KIND_WAITING)).reasons[0]).toMatchObject({ owner: runner.pod });
    const [end] = await project.append("/a", {
      type: itx.runSettled.type,
      payload: { requestOffset: asked!.offset, settlement: { outcome: "succeeded" } },
    });
    expect(await explain(project, run)).toMatchObject({ done: true, reasons: [{ sentence: `it ended at offset ${end!.offset}` }] });
    await expect(explain(project, { $case: "runOffset", value: 1n })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("names a runner that is away, soon, and still says what is known without it", { timeout: 60_000 }, async () => {
    const project = platform.project("/a");
    await project.subscribe("/a", "counter");
    const [tick] = await project.append("/a", { type: "tick" });
    await explained(project, event(tick!.offset), ReasonKind.REASON_KIND_DONE);
    await server.drain(0);
    const since = performance.now();
    expect(await explain(project, event(tick!.offset))).toMatchObject({
      done: false,
      away: ["runner"],
      reasons: [{ subject: 'subscription "counter"', kind: ReasonKind.REASON_KIND_UNKNOWN }],
    });
    expect(performance.now() - since).toBeLessThan(4_000);
    server = await serve();
    await explained(project, event(tick!.offset), ReasonKind.REASON_KIND_DONE);
  });

  it.each<[string, Subject, string]>([
    ["an event that is not there", { $case: "eventOffset", value: 99n }, "NOT_FOUND"],
    ["offset 0", { $case: "eventOffset", value: 0n }, "NOT_FOUND"],
    ["a negative offset", { $case: "eventOffset", value: -1n }, "INVALID_INPUT"],
    ["a subscription that is not there", { $case: "subscription", value: "nobody" }, "NOT_FOUND"],
    ["a name of nothing", { $case: "subscription", value: "" }, "INVALID_INPUT"],
    ["a name that is too long", { $case: "schedule", value: "k".repeat(257) }, "INVALID_INPUT"],
  ])("is refused for %s", async (_what, subject, code) => {
    const project = platform.project("/a");
    await project.append("/a", { type: "tick" });
    await expect(explain(project, subject)).rejects.toMatchObject({ code });
  });

  it("is refused for nothing, and for a context that is not there", async () => {
    const project = platform.project("/a");
    const context = { owner: project.owner, path: "/a" };
    await expect(client.explain({ context, subject: undefined })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(client.explain({ context, subject: subscription("counter") })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});
