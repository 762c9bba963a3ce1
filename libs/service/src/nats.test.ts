import { eventually, FaultProxy, freePort, startNats, type TestNats } from "@iterate-platform/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createLog } from "./log.js";
import { connectBroker, reconnectDelayMs, type Broker, type BrokerOptions, type BrokerStatus } from "./nats.js";

let nats: TestNats;
const brokers: Broker[] = [];
const lines: string[] = [];

beforeEach(async () => {
  nats = await startNats();
});
afterEach(async () => {
  await Promise.all(brokers.splice(0).map((broker) => broker.close(200)));
  await nats.stop();
  lines.length = 0;
});

function broker(options: Partial<BrokerOptions> = {}): Broker {
  const log = createLog("test", { write: (line) => lines.push(line) });
  const made = connectBroker({ url: nats.url, name: "test", log, pingIntervalMs: 100, ...options });
  brokers.push(made);
  return made;
}

const isConnected = (made: Broker): Promise<unknown> => eventually(() => made.status() === "connected", { timeoutMs: 10_000 });

/** What arrives at a subscription made now. */
function inbox(made: Broker, subject: string): string[] {
  const heard: string[] = [];
  made.subscribe(subject, (message) => heard.push(message.string()));
  return heard;
}

test("a message reaches a subscription made before there was a connection", async () => {
  const made = broker();
  expect(made.status()).toBe("connecting");
  const heard = inbox(made, "news");
  expect(made.publish("news", "dropped")).toBe(false);
  await isConnected(made);
  expect(made.publish("news", "kept")).toBe(true);
  await eventually(() => heard.length > 0);
  expect(heard).toEqual(["kept"]);
});

test("a broker that appears long after the service is found", async () => {
  const port = await freePort();
  const made = broker({ url: `nats://127.0.0.1:${port}` });
  await eventually(() => lines.filter((line) => line.includes("cannot be reached")).length >= 3, { timeoutMs: 10_000 });
  const late = await startNats({ port });
  try {
    await isConnected(made);
  } finally {
    await made.close(200);
    await late.stop();
  }
});

test("a killed broker is found again, with every subscription, and the reconnect is told", async () => {
  const made = broker();
  const heard = inbox(made, "news");
  const statuses: BrokerStatus[] = [];
  let reconnects = 0;
  made.onStatus((status) => statuses.push(status));
  made.onReconnect(() => reconnects++);
  await isConnected(made);
  expect(reconnects).toBe(0);
  await nats.kill();
  await eventually(() => made.status() === "reconnecting");
  expect(made.connection).toBeUndefined();
  expect(made.publish("news", "never buffered")).toBe(false);
  await nats.start();
  await isConnected(made);
  made.publish("news", "again");
  await eventually(() => heard.length > 0);
  expect(heard).toEqual(["again"]);
  expect(reconnects).toBe(1);
  expect(statuses).toEqual(["connected", "reconnecting", "connected"]);
});

describe("silence is noticed by pings", () => {
  test("when packets are swallowed", async () => {
    const proxy = await FaultProxy.start(nats.url);
    const made = broker({ url: proxy.url(nats.url) });
    await isConnected(made);
    proxy.drop();
    await eventually(() => made.status() === "reconnecting");
    await proxy.heal();
    await isConnected(made);
    proxy.stop();
  });

  test("when the server is held still", async () => {
    const made = broker();
    await isConnected(made);
    nats.server.freeze();
    await eventually(() => made.status() === "reconnecting");
    nats.server.thaw();
    await isConnected(made);
  });
});

test("refused credentials are tried again until they are taken", async () => {
  const port = await freePort();
  let guarded = await startNats({ port, users: [{ user: "context", password: "new" }] });
  const made = broker({ url: guarded.url, user: "context", password: "old" });
  await eventually(() => lines.filter((line) => /cannot be reached.*Authorization/i.test(line)).length >= 3, { timeoutMs: 10_000 });
  await guarded.stop();
  guarded = await startNats({ port, users: [{ user: "context", password: "old" }] });
  await isConnected(made);
  // Rotated while connected: several refusals in a row must not end it.
  await guarded.stop();
  guarded = await startNats({ port, users: [{ user: "context", password: "new" }] });
  await eventually(() => lines.filter((line) => /refused something.*Authorization/i.test(line)).length >= 3, { timeoutMs: 10_000 });
  expect(made.status()).toBe("reconnecting");
  await guarded.stop();
  guarded = await startNats({ port, users: [{ user: "context", password: "old" }] });
  await isConnected(made);
  expect(lines.join("")).not.toMatch(/"old"|"new"/);
  await made.close(200);
  await guarded.stop();
});

test("a user in the URL signs in with it and hears replies in an inbox of its own", async () => {
  const guarded = await startNats({
    users: [
      { user: "context", password: "p@ss:word", permissions: { publish: ["ask"], subscribe: ["_INBOX.context.>"] } },
      { user: "runner", password: "r", permissions: { publish: ["_INBOX.>"], subscribe: ["ask"] } },
    ],
  });
  const asker = broker({ url: guarded.url.replace("nats://", "nats://context:p%40ss%3Aword@") });
  const answerer = broker({ url: guarded.url, user: "runner", password: "r" });
  answerer.subscribe("ask", (message) => message.respond("answer"));
  await Promise.all([isConnected(asker), isConnected(answerer)]);
  await answerer.flush();
  const own = asker.newInbox();
  const replies = inbox(asker, own);
  await asker.flush();
  asker.publish("ask", "?", { reply: own });
  await eventually(() => replies.length === 1);
  expect((await asker.connection?.request("ask", "?", { timeout: 2_000 }))?.string()).toBe("answer");
  expect(lines.join("")).not.toContain("p@ss");
  await Promise.all([asker.close(200), answerer.close(200)]);
  await guarded.stop();
});

test("a receiver that throws is logged and goes on receiving", async () => {
  const made = broker();
  const heard: string[] = [];
  made.subscribe("news", (message) => {
    heard.push(message.string());
    throw new Error("receiver fault");
  });
  await isConnected(made);
  made.publish("news", "one");
  made.publish("news", "two");
  await eventually(() => heard.length === 2);
  expect(lines.filter((line) => line.includes("receiver fault"))).toHaveLength(2);
});

test("a closed subscription hears nothing more", async () => {
  const made = broker();
  const heard: string[] = [];
  const subscription = made.subscribe("news", (message) => heard.push(message.string()));
  await isConnected(made);
  subscription.close();
  const marker = inbox(made, "marker");
  made.publish("news", "unheard");
  made.publish("marker", "done");
  await eventually(() => marker.length === 1);
  expect(heard).toEqual([]);
});

test("flush answers when the server has everything and is UNAVAILABLE without a connection", async () => {
  const made = broker();
  await isConnected(made);
  await made.flush();
  await nats.kill();
  await eventually(() => made.status() === "reconnecting");
  await expect(made.flush(100)).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

describe("close is bounded and final", () => {
  test("while connected: what was published before arrives", async () => {
    const reader = broker();
    const heard = inbox(reader, "news");
    await isConnected(reader);
    await reader.flush();
    const made = broker();
    await isConnected(made);
    made.publish("news", "last words");
    await made.close();
    expect(made.status()).toBe("closed");
    expect(made.publish("news", "x")).toBe(false);
    await eventually(() => heard.length === 1);
  });

  test.each(["killed", "frozen"])("while the broker is %s", async (how) => {
    const made = broker();
    await isConnected(made);
    if (how === "killed") await nats.kill();
    else nats.server.freeze();
    const start = performance.now();
    await made.close(300);
    expect(made.status()).toBe("closed");
    expect(performance.now() - start).toBeLessThan(3_000);
  });

  test("while it never connected", async () => {
    const made = broker({ url: `nats://127.0.0.1:${await freePort()}` });
    await eventually(() => lines.some((line) => line.includes("cannot be reached")));
    await made.close(300);
    expect(made.status()).toBe("closed");
  });
});

test.each([
  [0, 0, 50],
  [0, 1, 100],
  [1, 1, 200],
  [5, 1, 3_200],
  [6, 1, 5_000],
  [1_000_000, 1, 5_000],
  [1_000_000, 0, 2_500],
])("the delay before attempt %i at random %d is %i ms", (attempt, random, expected) => {
  expect(reconnectDelayMs(attempt, random)).toBe(expected);
});
