/**
 * Code that loops, throws, fills its memory or dials the network harms nobody: its neighbours' work is done, its own climbs the ladder
 * and halts, and the log says why.
 */
import { exampleDeliveries, post, startStack, type Stack } from "@iterate-platform/local";
import { eventually } from "@iterate-platform/testing";
import type { IterateConnection, StreamEvent } from "iterate/node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect, countedThrough, pushed, readAll, type Context } from "./client.js";

const maxAttempts = 3;

let stack: Stack;
let connection: IterateConnection;

beforeAll(async () => {
  stack = await startStack({
    state: "temporary",
    portBase: "auto",
    variables: { runner: { DELIVERY_RETRY_BASE_MS: "20", DELIVERY_MAX_ATTEMPTS: String(maxAttempts) } },
  });
  connection = await connect(stack);
}, 120_000);

afterAll(async () => {
  // Neither is there when the stack did not start.
  (connection as IterateConnection | undefined)?.[Symbol.dispose]();
  await (stack as Stack | undefined)?.stop();
}, 60_000);

interface Halt {
  readonly name: string;
  readonly attempts: number;
  readonly error: { readonly code: string; readonly message: string; readonly stack?: string };
}

const haltsOf = (events: readonly StreamEvent[]): Map<string, Halt> =>
  new Map(
    events
      .filter((event) => event.type === "events.iterate.com/itx/subscription-delivery-halted")
      .map((event) => [(event.payload as Halt).name, event.payload as Halt]),
  );

async function haltOf(context: Context, name: string): Promise<Halt> {
  return eventually(async () => haltsOf(await readAll(context)).get(name) ?? null, { timeoutMs: 90_000, intervalMs: 200 });
}

test(
  "four kinds of hostile code halt with their reasons, beside a neighbour and a project that go on",
  { timeout: 180_000 },
  async () => {
    const neighbour = await pushed(stack, connection, "peaceful", "counter");
    const endpoint = await neighbour.project.webhooks.create({ provider: "github" });
    const { info, project } = await pushed(stack, connection, "hostile", "hostile");
    const tasks = await project.cd("/tasks");
    const added = await tasks.append(...[1, 2, 3].map((task) => ({ type: "events.example.com/task/added", payload: { task } })));
    const last = added.at(-1)?.offset ?? 0;

    const deliveries = exampleDeliveries("peaceful").slice(0, 50);
    for (const delivery of deliveries) expect((await post(endpoint.url, endpoint.secret, delivery)).status).toBe(200);

    const good = await countedThrough(info.url, last, 90_000);
    expect(good.state.count, "the neighbour in the same bundle").toBe(3);
    expect(await haltOf(tasks, "throws")).toMatchObject({
      attempts: maxAttempts,
      error: { code: "CODE_FAILED", message: expect.stringContaining("the task has no owner") as unknown },
    });
    expect((await haltOf(tasks, "dials")).error.message).toContain("EGRESS_DENIED");
    expect(await haltOf(tasks, "loops")).toMatchObject({ error: { code: "ISOLATE_CPU" } });
    expect(await haltOf(tasks, "bombs")).toMatchObject({ error: { code: "ISOLATE_MEMORY" } });
    expect([...haltsOf(await readAll(tasks)).keys()].sort(), "the good one is not among them").toEqual([
      "bombs",
      "dials",
      "loops",
      "throws",
    ]);

    const logged = await eventually(
      async () => {
        const { records } = await project.logs.read({ path: "/tasks", limit: 1000 });
        const text = records.map(({ body, attributes }) => `${body} ${JSON.stringify(attributes)}`).join("\n");
        return text.includes("the task has no owner") && text.includes("the network answered 403") ? text : null;
      },
      { timeoutMs: 30_000, intervalMs: 500 },
    );
    for (const reason of ["ISOLATE_CPU", "ISOLATE_MEMORY"]) expect(logged).toContain(reason);

    const peaceful = await (await connection.session.projects.get("peaceful")).cd("/integrations/github/main");
    const received = (await readAll(peaceful)).filter((event) => event.type === "events.iterate.com/github/webhook-received");
    const counted = await countedThrough(neighbour.info.url, received.at(-1)?.offset ?? 0, 60_000);
    expect(counted.state.count, "the other project").toBe(deliveries.length);
  },
);
