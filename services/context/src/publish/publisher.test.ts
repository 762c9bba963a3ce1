import { connect } from "@nats-io/transport-node";
import { CommitBatch } from "@iterate-platform/proto/iterate/context/v1/feed";
import { connectBroker, type Broker } from "@iterate-platform/service/nats";
import { eventually, FaultProxy, useNats } from "@iterate-platform/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { initialCore } from "../core/fold.js";
import type { CommittedBatch, CommittedContext, StorableEvent } from "../log/contract.js";
import { plainSource } from "../log/sql-log.fixture.js";
import { CommitStream } from "./commit-stream.js";
import { quietLog } from "./pod.fixture.js";
import { Publisher } from "./publisher.js";

const nats = useNats({ jetstream: true });
const event: StorableEvent = {
  type: "test/a",
  payload: Buffer.from("{}"),
  metadata: null,
  idempotencyKey: null,
  bodyDigest: null,
  expectedOffset: null,
  source: plainSource,
  traceparent: null,
  formatVersion: 1,
  control: undefined,
  isEphemeral: false,
  bytes: 2,
};

function committed(
  contextId: number,
  commitNo: number,
  partition: number,
  path = `/${contextId}`,
  events = [event],
): CommittedContext {
  const core = initialCore;
  const at = { commitNo, lastOffset: commitNo, reservedThrough: commitNo, lastControl: 1 };
  const head = {
    address: { owner: "prj_1", path },
    contextId,
    partition,
    createdAtUs: 1,
    runnerEpoch: 0,
    generation: 1,
    core,
    ...at,
  };
  const rows = events.map((event) => ({ event, offset: commitNo }));
  return { head, commitNo, firstOffset: commitNo, lastOffset: commitNo, rows, traceparent: null };
}
const batch = (...commits: CommittedContext[]): CommittedBatch => ({ atUs: 5, commits });

let broker: Broker | undefined;
let publisher: Publisher | undefined;
let proxy: FaultProxy;
beforeEach(async () => {
  proxy = await FaultProxy.start(nats.url);
});
afterEach(async () => {
  await publisher?.close(0);
  await broker?.close(200);
  proxy.stop();
});

function start(url: string, onUnstored = (): void => undefined): Publisher {
  broker = connectBroker({ url, name: "publisher.test", log: quietLog, pingIntervalMs: 60_000 });
  publisher = new Publisher({ broker, log: quietLog, inbox: "_INBOX.publisher-test", onUnstored });
  return publisher;
}

async function connected(): Promise<void> {
  const stream = new CommitStream({ broker: broker!, log: quietLog, replicas: 1 });
  await eventually(() => broker!.status() === "connected");
  await stream.close();
}

test("has one message of a bucket in flight, and sends what commits meanwhile with the next", async () => {
  const told = start(nats.url);
  await connected();
  const client = await connect({ servers: nats.url });
  const messages: CommitBatch[] = [];
  client.subscribe("ctx.0", { callback: (_, { data }) => void messages.push(CommitBatch.decode(data)) });
  await client.flush();
  for (let commitNo = 1; commitNo <= 500; commitNo += 1) told.add(batch(committed(1, commitNo, 3)));
  await eventually(() => messages.length === 1);
  for (let commitNo = 501; commitNo <= 600; commitNo += 1) told.add(batch(committed(1, commitNo, 3), committed(2, commitNo, 4)));
  await eventually(() => told.counts.acknowledged === 2 && messages.length === 2);
  const numbers = messages.map(({ commits }) =>
    commits.filter(({ context }) => context!.path === "/1").map(({ commitNo }) => Number(commitNo)),
  );
  expect(numbers.flat()).toEqual(Array.from({ length: 600 }, (_, at) => at + 1));
  expect(told.counts).toEqual({ commits: 700, sent: 2, acknowledged: 2, unstored: 0, unanswered: 0, dropped: 0 });
  expect(told.waitingBytes).toBe(0);
  await client.close();
});

test("without a broker keeps the last commit of each context up to 64 MiB, drops the rest, and never throws", () => {
  const told = start("nats://127.0.0.1:1");
  const path = `/${"a".repeat(1_000)}`;
  for (let id = 1; id <= 25_000; id += 1) told.add(batch(committed(id, 1, id % 256, path), committed(id, 2, id % 256, path)));
  expect(told.waitingBytes).toBeLessThanOrEqual(67_108_864);
  expect(told.counts.dropped).toBeGreaterThan(0);
  const { dropped } = told.counts;
  // A context that waits by its last commit alone takes no more room for the next.
  told.add(batch(committed(9_000, 3, 9_000 % 256, path)));
  expect(told.counts.dropped).toBe(dropped);
});

test("lets a message go that nobody answers, and goes on", async () => {
  const told = start(proxy.url(nats.url));
  await connected();
  told.add(batch(committed(1, 1, 3)));
  await eventually(() => told.counts.acknowledged === 1);
  proxy.drop();
  told.add(batch(committed(1, 2, 3)));
  await eventually(() => told.counts.sent === 2);
  told.add(batch(committed(1, 3, 3)));
  await eventually(() => told.counts.unanswered === 1 && told.counts.sent === 3, { timeoutMs: 5_000 });
  await proxy.heal();
  await eventually(() => told.counts.acknowledged >= 2);
  expect(told.waitingBytes).toBe(0);
});

test("says that no stream takes its messages", async () => {
  const admin = await connect({ servers: nats.url });
  await admin.request("$JS.API.STREAM.DELETE.CTX");
  let unstored = 0;
  const told = start(nats.url, () => (unstored += 1));
  await eventually(() => broker!.status() === "connected");
  told.add(batch(committed(1, 1, 3)));
  await eventually(() => told.counts.unstored === 1 && unstored === 1);
  await admin.close();
});
