/**
 * The main job on real input, step by step, each verified: a project, a push of the triage example, every example delivery of GitHub, what
 * the project made of them. A step that does not hold throws a sentence that says what was expected and what was seen.
 */
import { join } from "node:path";
import { connectIterate, type ProjectApi } from "iterate/node";
import type { RpcStub } from "capnweb";
import type { Stack } from "../stack.js";
import { repositoryRoot } from "../state.js";
import { exampleDeliveries, post, postAll, type Answer } from "./deliveries.js";
import { pushFolder } from "./git-push.js";
import { printed, walkOf } from "./walk.js";

export type Say = (line: string) => void;

export interface Demonstrated {
  readonly project: string;
  readonly pageUrl: string;
  /** Where the deliveries landed. */
  readonly contextPath: string;
  readonly events: number;
}

const contextPath = "/integrations/github/main";
const publishWithinMs = 60_000;
const processWithinMs = 120_000;
const postsAtOnce = 8;

export async function demonstrate(stack: Stack, say: Say): Promise<Demonstrated> {
  const baseUrl = `http://localhost:${stack.ports.of("public-http")}`;
  using connection = await connectIterate({ baseUrl, auth: { type: "admin-secret", secret: stack.adminToken } });
  const { session } = connection;

  const info = await createProject((slug) => session.projects.create({ slug }));
  say(`project ${info.slug} (${info.id})`);
  using project = await session.projects.get(info.id);

  const push = await pushFolder(
    join(repositoryRoot, "docs/examples/triage"),
    info.gitUrl,
    stack.adminToken,
    "Triage issues and pull requests",
  );
  say(`git push of docs/examples/triage: ${push.oid.slice(0, 12)}`);
  await published(project, push.oid);
  say("built, probed in an isolate, published as itx.config");

  using context = await project.cd(contextPath);
  const endpoint = await project.webhooks.create({ provider: "github" });
  const deliveries = exampleDeliveries(info.id);
  const startedAt = performance.now();
  const answers = new Map<string, number>();
  await postAll(endpoint.url, endpoint.secret, deliveries, postsAtOnce, (_delivery, answer) => count(answers, answer));
  const ms = performance.now() - startedAt;
  if (answers.get("200 accepted") !== deliveries.length)
    fail(`not all ${deliveries.length} deliveries were accepted: ${JSON.stringify(Object.fromEntries(answers))}`);
  const names = new Set(deliveries.map(({ name }) => name)).size;
  say(`${deliveries.length} signed deliveries of ${names} events posted and committed in ${(ms / 1000).toFixed(1)} s`);

  await refusals(endpoint.url, endpoint.secret, deliveries[0] ?? fail("there is no example delivery"));
  say("a redelivery was stored once, a bad signature refused with 401, an oversize body with 413");

  const log = await readAll(context);
  const received = log.filter((event) => event.type === "events.iterate.com/github/webhook-received");
  const ids = new Set(received.map((event) => (event.payload as { delivery: { id: string } }).delivery.id));
  expectEqual("events in the log", received.length, deliveries.length);
  expectEqual("different deliveries in the log", ids.size, deliveries.length);
  const last = received.at(-1)?.offset ?? 0;

  const state = await boardReaching(info.url, last);
  expectEqual("deliveries counted by the processor", state.deliveries, deliveries.length);
  const labelled = (await readAll(context)).filter((event) => event.type === "events.example.com/triage/item-labeled");
  if (labelled.length === 0) fail("the processor emitted nothing");
  say(
    `the triage processor counted ${state.deliveries} deliveries, keeps ${Object.keys(state.items).length} items, emitted ${labelled.length} labels, for example:`,
  );
  for (const event of labelled.slice(0, 3)) say(`  ${event.offset}  ${JSON.stringify(event.payload).slice(0, 140)}`);

  const page = await fetch(info.url);
  const html = await page.text();
  if (page.status !== 200 || !html.includes("Triage")) fail(`the page ${info.url} answered ${page.status}`);
  say(`the project's own page answers at ${info.url}`);

  const handled =
    labelled[0]?.source.processor?.whileProcessing?.offset ?? fail("the emitted event does not say what it was emitted for");
  const walk = await walkOf(project, contextPath, handled);
  say(`the walk of the delivery at offset ${handled}, as \`iterate trace\` prints it:`);
  for (const { traceId } of [walk.webhook, walk.delivery]) {
    for (const line of (await printed(traceId, info.slug, baseUrl, stack.adminToken)).trimEnd().split("\n")) say(`  ${line}`);
  }
  return { project: info.slug, pageUrl: info.url, contextPath, events: received.length };
}

/** `demo`, or the first of `demo-2`, `demo-3`, … that is free: a stack keeps what earlier runs made. */
async function createProject<Info>(create: (slug: string) => Promise<Info>): Promise<Info> {
  for (let round = 1; round < 1000; round += 1) {
    try {
      return await create(round === 1 ? "demo" : `demo-${round}`);
    } catch (error) {
      if (!(error instanceof Error && (error as { code?: unknown }).code === "PROJECT_NAME_TAKEN")) throw error;
    }
  }
  return fail("a thousand demo projects exist; run `make clean`");
}

async function published(project: RpcStub<ProjectApi>, oid: string): Promise<void> {
  const event = await project.waitForEvent({
    types: ["events.iterate.com/project/worker-updated", "events.iterate.com/project/worker-update-failed"],
    payload: { commitOid: oid },
    afterOffset: 0,
    timeoutMs: publishWithinMs,
  });
  if (event.type.endsWith("failed")) fail(`the push was not published: ${JSON.stringify(event.payload)}`);
}

async function refusals(url: string, secret: string, delivery: { id: string; name: string; body: Buffer }): Promise<void> {
  expectAnswer("a redelivery", await post(url, secret, delivery), "200 duplicate");
  expectAnswer(
    "a bad signature",
    await post(url, `${secret}x`, { ...delivery, id: `f${delivery.id.slice(1)}` }),
    "401 INVALID_SIGNATURE",
  );
  expectAnswer(
    "an oversize body",
    await post(url, secret, { ...delivery, id: `e${delivery.id.slice(1)}`, body: Buffer.alloc(9 * 1024 * 1024, " ") }),
    "413 BATCH_TOO_LARGE",
  );
}

type Context = Pick<RpcStub<ProjectApi>, "readEvents">;

async function readAll(context: Context) {
  const events = [];
  for (let afterOffset = 0; ;) {
    const page = await context.readEvents({ afterOffset, limit: 1000 });
    events.push(...page.events);
    if (page.atHead) return events;
    afterOffset = page.scannedThroughOffset;
  }
}

interface Board {
  readonly deliveries: number;
  readonly items: Record<string, unknown>;
}

/** The processor's state once it has folded through `offset`, by way of the project's own page. */
async function boardReaching(pageUrl: string, offset: number): Promise<Board> {
  const deadline = performance.now() + processWithinMs;
  for (;;) {
    const response = await fetch(`${pageUrl}state.json`);
    const text = await response.text();
    if (response.status === 200) {
      const snapshot = JSON.parse(text) as { offset: number; state: Board | null };
      if (snapshot.state !== null && snapshot.offset >= offset) return snapshot.state;
    }
    if (performance.now() > deadline)
      fail(
        `the processor did not reach offset ${offset} in ${processWithinMs / 1000} s; last answer ${response.status}: ${text.slice(0, 300)}`,
      );
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

function count(answers: Map<string, number>, { status, outcome }: Answer): void {
  const key = `${status} ${outcome}`;
  answers.set(key, (answers.get(key) ?? 0) + 1);
}

function expectAnswer(what: string, { status, outcome }: Answer, expected: string): void {
  if (`${status} ${outcome}` !== expected) fail(`${what} was answered ${status} ${outcome}, not ${expected}`);
}

function expectEqual(what: string, seen: number, expected: number): void {
  if (seen !== expected) fail(`${what}: ${seen}, not ${expected}`);
}

function fail(sentence: string): never {
  throw new Error(sentence);
}
