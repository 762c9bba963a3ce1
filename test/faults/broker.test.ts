/** The broker carries hints alone: killed, emptied, frozen or away for longer than clients of it usually try, nothing is lost and nobody waits for ever. */
import { createServer, type Server } from "node:net";
import { once } from "node:events";
import { eventually } from "@iterate-platform/testing";
import { expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { count, isLong, testBoundMs } from "./scale.js";

const cluster = useCluster();

const connected = (): Promise<boolean[]> =>
  Promise.all(cluster.pods.map(async ({ process }) => (await process.metric("iterate_broker_connected")) === 1));
const stored = (): Promise<number[]> =>
  Promise.all(cluster.pods.map(({ process }) => process.metric('iterate_context_publish_messages_total{outcome="acknowledged"')));

/** The broker is heard and its stream takes messages, without any process started anew. */
async function expectPublishing(): Promise<void> {
  await eventually(async () => (await connected()).every(Boolean), { timeoutMs: 20_000 });
  const before = await stored();
  await eventually(async () => (await stored()).every((messages, pod) => messages > before[pod]!), { timeoutMs: 45_000 });
}

test(
  "killed and started again on the same files",
  async () => {
    const load = cluster.load();
    await load.acknowledged(count(20));
    await cluster.nats.kill();
    await load.acknowledged(count(30));
    await load.subscribersKeepUp();
    await cluster.nats.start();
    await expectPublishing();
    await load.acknowledged(count(10));
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);

test(
  "killed and emptied: its stream is made again",
  async () => {
    const load = cluster.load();
    await load.acknowledged(count(20));
    await cluster.nats.kill();
    cluster.nats.loseData();
    await load.acknowledged(count(20));
    await cluster.nats.start();
    await expectPublishing();
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);

test(
  "away for more attempts to reach it than clients make before they give up",
  async () => {
    const load = cluster.load();
    await load.acknowledged(count(10));
    await cluster.nats.kill();
    const refusing = new RefusingListener();
    await refusing.listen(cluster.nats.server.port);
    // The client's own default is ten attempts.
    await eventually(() => refusing.attempts >= (isLong ? 12 : 6) * cluster.pods.length, { timeoutMs: 90_000 });
    await refusing.close();
    await load.acknowledged(count(10));
    await cluster.nats.start();
    await expectPublishing();
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);

test(
  "frozen: connections stay open, and nothing is answered",
  async () => {
    const load = cluster.load();
    await load.acknowledged(count(10));
    cluster.nats.server.freeze();
    await load.acknowledged(count(40));
    await load.subscribersKeepUp();
    cluster.nats.server.thaw();
    await expectPublishing();
    await cluster.expectAllPromises(load);
    expect(load.history.unexpected).toEqual([]);
  },
  testBoundMs,
);

/** Stands where the broker was, and takes no one. */
class RefusingListener {
  attempts = 0;
  readonly #server: Server = createServer((socket) => {
    this.attempts += 1;
    socket.destroy();
  });

  async listen(port: number): Promise<void> {
    this.#server.listen(port, "127.0.0.1");
    await once(this.#server, "listening");
  }

  async close(): Promise<void> {
    this.#server.close();
    await once(this.#server, "close");
  }
}
