import { connect, type NatsConnection } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { CommitBatch, type Commit } from "@iterate-platform/proto/iterate/context/v1/feed";
import { bucketOf, partitionOf } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { eventually, useNats, useTestDatabase } from "@iterate-platform/testing";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ContextAddress } from "../log/contract.js";
import type { WrittenEvent } from "../log/sql-log.fixture.js";
import { Pod, type Follower } from "./pod.fixture.js";

const database = useTestDatabase();
const nats = useNats({ jetstream: true });
beforeAll(async () => {
  await migrate({ url: database.url, dir: new URL("../../migrations", import.meta.url).pathname });
});

let one: Pod;
let two: Pod;
const followers: Follower[] = [];
beforeEach(async () => {
  one = new Pod(database.url, nats.url);
  two = new Pod(database.url, nats.url);
  await eventually(() => one.broker.status() === "connected" && two.broker.status() === "connected");
});
afterEach(async () => {
  for (const follower of followers.splice(0)) await follower.leave();
  expect(one.news.hub.counts).toEqual({ contexts: 0, listeners: 0, heldBytes: 0 });
  expect(two.news.hub.counts).toEqual({ contexts: 0, listeners: 0, heldBytes: 0 });
  await Promise.all([one.close(), two.close()]);
});

let contexts = 0;
const newContext = (): ContextAddress => ({ owner: "prj_live", path: `/live/${++contexts}` });
const follow = (pod: Pod, address: ContextAddress, after = 0, types: readonly string[] = []): Follower => {
  const follower = pod.follow({ address, after, types });
  followers.push(follower);
  return follower;
};
const made = (n: number, type = "test/a"): WrittenEvent => ({ type, payload: `{"n":${n}}` });
const upTo = (last: number): number[] => Array.from({ length: last }, (_, at) => at + 1);
/** A follower that is live: it has seen the head. */
async function caughtUp(pod: Pod, address: ContextAddress, after = 0, types: readonly string[] = []): Promise<Follower> {
  const follower = follow(pod, address, after, types);
  expect(await follower.step()).toMatchObject({ isAtHead: true });
  return follower;
}

/** Subscribed, and with no confirmation under way that would find what is committed from here on. */
async function settled(pod: Pod): Promise<void> {
  await pod.broker.flush();
  await pod.news.hub.confirmAll();
  await pod.news.hub.confirmAll();
}

/** The same, and no round of confirmations comes by itself. */
async function quiet(pod: Pod): Promise<void> {
  pod.news.hub.stop();
  await settled(pod);
}

describe("a stream", () => {
  test("answers the past and then what is appended through any process", async () => {
    const address = newContext();
    await one.append(address, made(1), made(2));
    const readers = [await caughtUp(one, address), await caughtUp(two, address)];
    await one.append(address, made(3));
    await two.append(address, made(4), made(5));
    for (const reader of readers) {
      expect((await reader.until(5)).offsets).toEqual(upTo(5));
      expect(reader.bodies).toEqual(upTo(5).map((n) => `${n} {"n":${n}}`));
    }
  });

  test("answers live events exactly as a later read answers them", async () => {
    const address = newContext();
    const [here, there] = [await caughtUp(one, address), await caughtUp(two, address)];
    await quiet(one);
    await quiet(two);
    const source = JSON.stringify({
      origin: "/x",
      cause: { chain: "c", depth: 2 },
      principal: "usr_1",
      processor: { slug: "s", version: "2" },
    });
    await one.append(
      address,
      { type: "test/exact", payload: '{"a":"\\ud800"}', metadata: " 1 ", key: "k", source },
      { type: "test/exact", payload: null },
    );
    const live = [(await here.step()).events, (await there.step()).events];
    const read = (await two.reader.read(address, 0, [], { limit: 10, maxBytes: 1_000_000 })).events;
    expect(read).toHaveLength(2);
    for (const events of live) expect(events).toEqual(read);
    expect(one.reader.statements + two.reader.statements).toBe(1);
  });

  test("begins at the head of the time of the call when no offset is given", async () => {
    const address = newContext();
    await one.append(address, made(1), made(2));
    const follower = two.follow({ address, after: undefined });
    followers.push(follower);
    expect(await follower.step()).toMatchObject({ events: [], scannedThrough: 2, isAtHead: true });
    await one.append(address, made(3));
    expect((await follower.until(3)).offsets).toEqual([3]);
  });

  test("of a context that is born later begins with its birth", async () => {
    const address = newContext();
    const follower = await caughtUp(two, address);
    await one.append(address, made(1));
    expect((await follower.until(1)).offsets).toEqual([1]);
  });

  test("that starts beyond the head answers only what comes after its offset", async () => {
    const address = newContext();
    await one.append(address, made(1));
    const follower = await caughtUp(one, address, 3);
    await one.append(address, made(2));
    await one.append(address, made(3), made(4), made(5));
    expect((await follower.until(5)).offsets).toEqual([4, 5]);
  });

  test("by type tells how far it looked without a message for each commit", async () => {
    const address = newContext();
    await one.append(address, made(1, "test/wanted"));
    const follower = await caughtUp(two, address, 0, ["test/wanted"]);
    for (let n = 2; n <= 20; n += 1) await one.append(address, made(n, "test/other"));
    await one.append(address, made(21, "test/wanted"));
    expect((await follower.until(21)).offsets).toEqual([1, 21]);
    expect(follower.pages.length).toBeLessThanOrEqual(4);
  });

  test("notices a commit whose message was lost within the confirmation of every 500 ms", async () => {
    const address = newContext();
    await one.append(address, made(1));
    const follower = await caughtUp(two, address);
    await settled(two);
    await one.commit(address, [made(2)]);
    const from = performance.now();
    expect((await follower.until(2)).offsets).toEqual([1, 2]);
    expect(performance.now() - from).toBeLessThan(1_500);
  });

  test("reads the log over a gap as soon as a later commit is heard", async () => {
    const address = newContext();
    await one.append(address, made(1));
    const follower = await caughtUp(two, address);
    await quiet(two);
    for (let n = 2; n <= 4; n += 1) await one.commit(address, [made(n)]);
    await one.append(address, made(5));
    expect((await follower.until(5)).offsets).toEqual(upTo(5));
  });

  test("is not led astray by messages that are repeated, out of order, forged or no messages at all", async () => {
    const address = newContext();
    await one.append(address, made(1));
    const follower = await caughtUp(two, address);
    const subject = `ctx.${bucketOf(partitionOf(address.owner, address.path))}`;
    const raw = await connect({ servers: nats.url });
    const heard: Uint8Array[] = [];
    raw.subscribe(subject, { callback: (_, { data }) => void heard.push(data) });
    await raw.flush();
    for (let n = 2; n <= 6; n += 1) {
      await one.append(address, made(n));
      await eventually(() => heard.length === n - 1);
    }
    await follower.until(6);
    for (const data of [...heard, ...heard.toReversed()]) raw.publish(subject, data);
    const [last] = CommitBatch.decode(heard.at(-1)!).commits as [Commit];
    const elsewhere = upTo(100)
      .map((at) => ({ owner: address.owner, path: `${address.path}-${at}` }))
      .find(({ owner, path }) => `ctx.${bucketOf(partitionOf(owner, path))}` !== subject)!;
    const lies: Partial<Commit>[] = [
      { commitNo: 900n, firstOffset: 900n, lastOffset: 900n },
      { commitNo: 7n, firstOffset: 2n, lastOffset: 2n },
      { commitNo: 7n, firstOffset: 7n, lastOffset: 7n, events: [{ ...last.events[0]!, offset: 8n }] },
      { commitNo: 7n, firstOffset: 7n, lastOffset: 5_000n, events: [], inlined: false },
      { commitNo: -1n },
      { context: elsewhere },
      { context: undefined },
    ];
    for (const lie of lies) raw.publish(subject, CommitBatch.encode({ commits: [{ ...last, ...lie }] }).finish());
    raw.publish(subject, Uint8Array.from([0x0a, 0xff, 0xff, 0xff]));
    raw.publish(subject, Buffer.from("hello"));
    raw.publish(`ctx.${(bucketOf(partitionOf(address.owner, address.path)) + 1) % 16}`, heard[0]);
    await raw.flush();
    await raw.close();
    await two.append(address, made(7), made(8));
    await one.append(address, made(9));
    expect((await follower.until(9)).bodies).toEqual(upTo(9).map((n) => `${n} {"n":${n}}`));
    expect(two.news.heard.malformed).toBeGreaterThanOrEqual(4);
  });

  test("goes on without a gap while the broker is killed, wiped and started again", async () => {
    const address = newContext();
    await one.append(address, made(1));
    const follower = await caughtUp(two, address);
    let n = 1;
    const appendSome = async (): Promise<void> => {
      for (let at = 0; at < 5; at += 1) await one.append(address, made(++n));
      await follower.until(n);
    };
    await appendSome();
    await nats.server.kill();
    await eventually(() => one.broker.status() !== "connected" && two.broker.status() !== "connected");
    await appendSome();
    nats.server.loseData();
    await nats.server.start();
    await appendSome();
    await eventually(() => one.broker.status() === "connected" && two.broker.status() === "connected", { timeoutMs: 15_000 });
    await appendSome();
    expect(follower.bodies).toEqual(upTo(n).map((at) => `${at} {"n":${at}}`));
    const admin = await connect({ servers: nats.url });
    await eventually(async () => (await streamMessages(admin)) >= 0, { timeoutMs: 15_000 });
    const before = await streamMessages(admin);
    await appendSome();
    await eventually(async () => (await streamMessages(admin)) > before);
    await admin.close();
  });

  test("with no broker at all hears of other processes by the confirmations alone", async () => {
    const address = newContext();
    const lonely = new Pod(database.url, "nats://127.0.0.1:1");
    try {
      await one.append(address, made(1));
      const follower = await caughtUp(lonely, address);
      await one.append(address, made(2));
      expect((await follower.until(2)).offsets).toEqual([1, 2]);
      const own = lonely.append(address, made(3));
      expect((await follower.until(3)).offsets).toEqual([1, 2, 3]);
      await own;
      await follower.leave();
      followers.splice(followers.indexOf(follower), 1);
      expect(lonely.news.publisher.counts).toMatchObject({ commits: 1, sent: 0 });
    } finally {
      await lonely.close();
    }
  });

  test("holds nothing for a reader that is slow, which reads the log when it comes back", async () => {
    const address = newContext();
    await one.append(address, made(1));
    const [slow, fast] = [await caughtUp(two, address), await caughtUp(two, address)];
    const body = JSON.stringify("x".repeat(2_000));
    let total = 1;
    for (let round = 0; round < 30; round += 1) {
      await one.append(address, ...Array.from({ length: 100 }, () => ({ type: "test/a", payload: body })));
      total += 100;
      await fast.until(total);
      expect(two.news.hub.counts.heldBytes).toBeLessThanOrEqual(262_144);
    }
    const before = two.reader.statements;
    await slow.until(total);
    expect(slow.offsets).toEqual(upTo(total));
    expect(two.reader.statements - before).toBeGreaterThan(1);
    expect(
      Math.max(...slow.pages.map(({ events }) => events.reduce((sum, { payload }) => sum + payload!.length, 0))),
    ).toBeLessThanOrEqual(524_288);
  });

  test("has no gap and no repeat however appends fall around its start", async () => {
    const address = newContext();
    let last = await one.append(address, made(1));
    const appending = (async () => {
      for (let at = 0; at < 150; at += 1) last = await (at % 2 === 0 ? one : two).append(address, made(at + 2));
    })();
    const seen: Follower[] = [];
    for (let at = 0; at < 20; at += 1) {
      const follower = follow(at % 2 === 0 ? two : one, address, 0);
      seen.push(follower);
      await follower.step();
    }
    await appending;
    for (const follower of seen) expect((await follower.until(last)).offsets).toEqual(upTo(last));
  });
});

describe("confirmation", () => {
  test("answers an append that was acknowledged through another process, always", async () => {
    const address = newContext();
    for (let n = 1; n <= 100; n += 1) {
      const [writer, reader] = n % 2 === 0 ? [one, two] : [two, one];
      await writer.commit(address, [made(n)]);
      expect((await reader.heads.confirm(address))?.lastOffset).toBe(n);
      expect(await reader.reader.read(address, n - 1, ["test/a"], { limit: 10, maxBytes: 1_000 })).toMatchObject({
        scannedThrough: n,
        events: [{ offset: BigInt(n) }],
      });
    }
  });

  test("of all calls of a turn is one query, and of the contexts of a round too", async () => {
    const addresses = Array.from({ length: 20 }, newContext);
    for (const address of addresses) await one.append(address, made(1));
    const before = one.heads.queries;
    await Promise.all(Array.from({ length: 500 }, (_, at) => one.heads.confirm(addresses[at % 20]!)));
    expect(one.heads.queries - before).toBe(1);
    for (const address of addresses) await caughtUp(one, address);
    await quiet(one);
    const rounds = one.heads.queries;
    await one.news.hub.confirmAll();
    expect(one.heads.queries - rounds).toBe(1);
  });
});

async function streamMessages(connection: NatsConnection): Promise<number> {
  return (await (await jetstreamManager(connection)).streams.info("CTX")).state.messages;
}
