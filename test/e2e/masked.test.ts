/** The platform addresses the fixed point: whatever a project masks, and wherever, what the platform itself does goes on. */
import { exampleDeliveries, post, startStack, type Stack } from "@iterate-platform/local";
import { eventually } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import type { IterateConnection } from "iterate/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { vocabularyOfRoots } from "../../services/context/src/rules/roots.js";
import { connect, publish, readAll } from "./client.js";

let stack: Stack;
let connection: IterateConnection;

beforeAll(async () => {
  stack = await startStack({ state: "temporary", portBase: "auto" });
  connection = await connect(stack);
}, 180_000);

afterAll(async () => {
  // Neither is there when the stack did not start.
  (connection as IterateConnection | undefined)?.[Symbol.dispose]();
  await (stack as Stack | undefined)?.stop();
}, 60_000);

/** A rule for `provide`, a method of the handle, is refused; the last one masks it with all others. */
const maskable = vocabularyOfRoots.names.filter((name) => name !== "provide").map((name) => `itx.${name}`);
const everyMask = [...maskable, "itx"].map((match) => ({
  type: itx.rewriteRuleConfigured.type,
  payload: { match, target: null },
}));

test("a project that masks every name in every context is published, told its webhooks, delivered to and fired for as any other", async () => {
  const info = await connection.session.projects.create({ slug: "masked" });
  const project = await connection.session.projects.get("masked");
  const hooks = project.cd("/integrations/github/main");
  for (const context of [project, project.cd("/repos/config"), hooks]) await context.append(...everyMask);

  await publish(stack, { info, project }, "counter");
  const page = await fetch(`${info.url.replace(/\/$/, "")}/request`, { signal: AbortSignal.timeout(20_000) });
  expect(page.status).toBe(200);

  const endpoint = await project.webhooks.create({ provider: "github" });
  const [delivery] = exampleDeliveries("masked");
  expect(await post(endpoint.url, endpoint.secret, delivery!)).toMatchObject({ status: 200 });
  // The counter was given it: what it emits is an append of code, which alone is refused here.
  const failed = await hooks.waitForEvent({ types: [itx.subscriptionDeliveryFailed.type], afterOffset: 0, timeoutMs: 60_000 });
  expect(failed.payload).toMatchObject({ error: { code: "NO_ITX_EXPRESSION_MATCH" } });

  await hooks.append({
    type: itx.scheduleSet.type,
    payload: { key: "k", when: { afterMs: 0 }, events: [{ type: "acme/fired" }] },
  });
  await eventually(async () => (await readAll(hooks)).some(({ type }) => type === "acme/fired"), {
    timeoutMs: 30_000,
    intervalMs: 200,
  });
}, 180_000);
