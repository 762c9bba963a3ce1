/**
 * Acknowledged means committed, committed means delivered: whichever service is killed while deliveries come in, every acknowledged one
 * is in the log once, its emitted event exists once, and the processor's state counts it once.
 */
import { exampleDeliveries, post, startStack, type Delivery, type ServiceName, type Stack } from "@iterate-platform/local";
import { eventually } from "@iterate-platform/testing";
import type { IterateConnection } from "iterate/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, countedThrough, pushed, readAll } from "./client.js";

/** The long run posts what the promise names, the short one a tenth. */
const deliveryCount = process.env.LONG === "1" ? 2_000 : 200;
const atOnce = 16;
const boundMs = process.env.LONG === "1" ? 300_000 : 90_000;

let stack: Stack;

beforeAll(async () => {
  stack = await startStack({
    state: "temporary",
    portBase: "auto",
    variables: { runner: { LEASE_TTL_MS: "3000", FEED_SWEEP_MS: "1000" } },
  });
}, 120_000);

afterAll(async () => {
  // It is not there when it did not start.
  await (stack as Stack | undefined)?.stop();
}, 60_000);

function deliveries(prefix: string): Delivery[] {
  const all: Delivery[] = [];
  for (let round = 0; all.length < deliveryCount; round += 1) all.push(...exampleDeliveries(`${prefix} ${round}`));
  return all.slice(0, deliveryCount);
}

test.for<ServiceName>(["context", "runner", "runner-isolate", "bundler", "build-worker", "ingress", "telemetry"])(
  "kill -9 of %s loses nothing and repeats nothing",
  { timeout: boundMs },
  async (victim) => {
    let connection: IterateConnection = await connect(stack);
    const slug = `kill-${victim}`;
    const { info, project } = await pushed(stack, connection, slug, "counter");
    const endpoint = await project.webhooks.create({ provider: "github" });
    const sent = deliveries(slug);

    let acknowledged = 0;
    const kills: Promise<void>[] = [];
    let next = 0;
    const worker = async (): Promise<void> => {
      for (let delivery = sent[next++]; delivery !== undefined; delivery = sent[next++]) {
        const each = delivery;
        // As a provider or its owner would: the same delivery again until it is acknowledged.
        await eventually(async () => (await post(endpoint.url, endpoint.secret, each)).status === 200, {
          timeoutMs: 60_000,
          intervalMs: 100,
        });
        acknowledged += 1;
        if (acknowledged === deliveryCount / 2) kills.push(stack.kill(victim));
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    expect(kills, "the kill happened while deliveries came in").toHaveLength(1);
    await Promise.all(kills);
    await stack.ready(victim);

    connection[Symbol.dispose]();
    connection = await connect(stack);
    const context = await (await connection.session.projects.get(slug)).cd("/integrations/github/main");
    const idOf = (event: { payload?: unknown }) => (event.payload as { delivery: { id: string } }).delivery.id;
    const received = (await readAll(context)).filter((event) => event.type === "events.iterate.com/github/webhook-received");
    expect(received.map(idOf).sort(), "each acknowledged delivery, once").toEqual(sent.map(({ id }) => id).sort());

    const last = received.at(-1)?.offset ?? 0;
    const snapshot = await countedThrough(info.url, last, 60_000);
    expect(snapshot.state.count, "counted once each").toBe(deliveryCount);
    const counted = await eventually(
      async () => {
        const emitted = (await readAll(context)).filter((event) => event.type === "events.example.com/counter/counted");
        return emitted.length >= deliveryCount ? emitted : null;
      },
      { timeoutMs: 30_000, intervalMs: 100 },
    );
    const offsets = counted.map((event) => (event.payload as { offset: number }).offset);
    expect(
      offsets.sort((a, b) => a - b),
      "one emitted event for each",
    ).toEqual(received.map(({ offset }) => offset));
    connection[Symbol.dispose]();
  },
);
