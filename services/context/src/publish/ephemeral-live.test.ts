import { connect } from "@nats-io/transport-node";
import { LiveBatch, type LiveRun } from "@iterate-platform/proto/iterate/context/v1/live";
import { partitionOf } from "@iterate-platform/service/ids";
import { migrate } from "@iterate-platform/service/migrations";
import { eventually, useNats, useTestDatabase } from "@iterate-platform/testing";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { ContextAddress } from "../log/contract.js";
import { owner, type EventFields } from "../log/engine.fixture.js";
import { blockOffsets } from "../log/offset-blocks.js";
import { Waits } from "../log/wait.js";
import { PostgresLogStore } from "../log/postgres/postgres-log-store.js";
import { ringBytes } from "./ephemeral-rings.js";
import { listCommits } from "./feed.js";
import { maxMessageBytes } from "./live-publisher.js";
import type { Follower } from "./pod.fixture.js";
import { WritingPod } from "./writing-pod.fixture.js";

const database = useTestDatabase();
const nats = useNats({ jetstream: true });
beforeAll(async () => {
  await migrate({ url: database.url, dir: new URL("../../migrations", import.meta.url).pathname });
});

let one: WritingPod;
let two: WritingPod;
const followers: Follower[] = [];
beforeEach(async () => {
  one = new WritingPod(database.url, nats.url);
  two = new WritingPod(database.url, nats.url);
  await eventually(() => one.broker.status() === "connected" && two.broker.status() === "connected");
});
afterEach(async () => {
  for (const follower of followers.splice(0)) await follower.leave();
  for (const pod of [one, two]) {
    expect(pod.faults).toEqual([]);
    pod.news.rings.clear();
    expect(pod.news.hub.counts).toEqual({ contexts: 0, listeners: 0, heldBytes: 0 });
    expect(pod.news.heardLive.subscriptions).toBe(0);
    await eventually(() => pod.news.livePublisher.waitingBytes === 0);
  }
  await Promise.all([one.close(), two.close()]);
});

let contexts = 0;
const newContext = (): ContextAddress => ({ owner, path: `/live/${++contexts}` });
const frame = (fields: EventFields = {}): EventFields => ({ type: "test/progress-frame", payload: {}, ephemeral: true, ...fields });
const durable: EventFields = { type: "test/done", payload: {} };
/** JSON of exactly so many bytes. */
const ofSize = (bytes: number): Buffer => Buffer.from(JSON.stringify("x".repeat(bytes - 2)));
const offsetsOf = ({ events }: { readonly events: readonly { readonly offset: bigint }[] }): number[] =>
  events.map(({ offset }) => Number(offset));
const upTo = (last: number, first = 1): number[] => Array.from({ length: last - first + 1 }, (_, at) => first + at);

/** A follower that is live, at the head, and whose subscriptions the broker has. */
async function following(pod: WritingPod, address: ContextAddress, heard: "stored" | "all" = "all"): Promise<Follower> {
  const follower = pod.follow({ address, after: 0, heard });
  followers.push(follower);
  expect(await follower.step()).toMatchObject({ isAtHead: true });
  await pod.broker.flush();
  return follower;
}

/** No round of confirmations comes by itself: what is known of a commit is what was told of it, in the order it was told. */
async function quiet(...pods: readonly WritingPod[]): Promise<void> {
  for (const pod of pods) {
    pod.news.hub.stop();
    await pod.news.hub.confirmAll();
    await pod.news.hub.confirmAll();
  }
}

/** Pulls until the follower was sent an event at `offset` or above. */
async function reaches(follower: Follower, offset: number): Promise<number[]> {
  while ((follower.offsets.at(-1) ?? 0) < offset) await follower.step();
  return follower.offsets;
}

describe("a read that includes ephemeral events", () => {
  test("[iterate-10] is the only one that shows them", async () => {
    const address = newContext();
    await one.put(address, durable, frame(), durable);
    expect(await one.read(address)).toMatchObject({ areEphemeralsIncluded: true, scannedThrough: 4, isAtHead: true });
    expect(offsetsOf(await one.read(address))).toEqual([1, 2, 3, 4]);
    expect(offsetsOf(await one.reader.read(address, 0, [], { limit: 10, maxBytes: 1_000_000 }))).toEqual([1, 2, 4]);
  });

  test("[iterate-12] has the newest megabyte, and the newest event whatever its size", async () => {
    const address = newContext();
    await one.put(address, durable);
    for (let n = 0; n < 6; n += 1) await one.put(address, frame({ payload: ofSize(300 * 1_024) }));
    expect(offsetsOf(await one.read(address))).toEqual([1, 2, 6, 7, 8]);
    expect(one.news.rings.counts.bytes).toBeLessThanOrEqual(ringBytes);
    await one.put(address, frame({ payload: ofSize(2 * 1_048_576) }));
    expect(offsetsOf(await one.read(address))).toEqual([1, 2, 9]);
  });

  test("[iterate-13] merges both kinds in offset order, proves the stored ones, and repeats the others at the head", async () => {
    const address = newContext();
    // Offset 1 is the birth of the context, so all are one later than in the description.
    await one.put(address, durable, frame(), durable, frame(), durable, frame());
    const page = async (after: number) => {
      const { scannedThrough, isAtHead, ...rest } = await one.read(address, after, 2);
      return [offsetsOf(rest), scannedThrough, isAtHead];
    };
    expect(await page(1)).toEqual([[2, 3, 4], 4, false]);
    expect(await page(4)).toEqual([[5, 6, 7], 6, true]);
    expect(await page(6)).toEqual([[7], 6, true]);
    expect(await page(7)).toEqual([[], 7, true]);
  });

  test("takes them by type as well", async () => {
    const address = newContext();
    await one.put(address, durable, frame(), frame({ type: "test/other-frame" }), durable);
    expect(offsetsOf(await one.read(address, 0, 500, ["test/other-frame"]))).toEqual([4]);
    expect(offsetsOf(await one.read(address, 0, 500, ["test/done", "test/progress-frame"]))).toEqual([2, 3, 5]);
  });

  test("answers no more than a message can hold: what finds no room is in the next page", async () => {
    const address = newContext();
    const large = ofSize(8 * 1_048_576 - 1_024);
    const [stored] = await one.put(address, { ...durable, payload: large });
    const [ephemeral] = await one.put(address, frame({ payload: large }));
    expect(offsetsOf(await one.read(address, 1))).toEqual([stored]);
    expect(offsetsOf(await one.read(address, stored))).toEqual([ephemeral]);
  });

  test("answers stored events alone, and says so, wherever the newest reserved offsets are not", async () => {
    const address = newContext();
    expect(await one.read(address)).toMatchObject({ events: [], areEphemeralsIncluded: false });
    await one.put(address, durable, frame());
    expect(await two.read(address)).toMatchObject({ areEphemeralsIncluded: false });
    expect(offsetsOf(await two.read(address))).toEqual([1, 2]);
    expect(offsetsOf(await one.read(address))).toEqual([1, 2, 3]);
    await two.put(address, durable);
    expect(offsetsOf(await one.read(address))).toEqual([1, 2, 2 + blockOffsets + 1]);
    expect((await one.read(address)).areEphemeralsIncluded).toBe(false);
    await one.put(address, frame());
    expect((await one.read(address)).areEphemeralsIncluded).toBe(true);
  });

  test("[iterate-24] shows nothing of a batch that was refused", async () => {
    const address = newContext();
    await one.put(address, frame());
    await expect(one.put(address, frame(), { ...durable, offset: 99 })).rejects.toMatchObject({ code: "OFFSET_CONFLICT" });
    expect(offsetsOf(await one.read(address))).toEqual([1, 2]);
  });
});

describe("a stream that includes ephemeral events", () => {
  test("has both kinds in offset order, through any process, and another stream the stored ones alone", async () => {
    const address = newContext();
    await one.put(address, durable);
    const all = [await following(one, address), await following(two, address)];
    const plain = await following(two, address, "stored");
    await quiet(one, two);
    expect(await one.put(address, frame(), durable, frame())).toEqual([3, 4, 5]);
    expect(await one.put(address, frame())).toEqual([6]);
    expect(await one.put(address, durable, frame())).toEqual([7, 8]);
    for (const follower of all) {
      expect(await reaches(follower, 8)).toEqual(upTo(8));
      expect(follower.pages.at(-1)!.scannedThrough).toBe(7);
    }
    expect((await plain.until(7)).offsets).toEqual([1, 2, 4, 7]);
    expect(two.news.heardLive.subscriptions).toBe(1);
  });

  test("answers them through another process as the writer's own process does", async () => {
    const address = newContext();
    await one.put(address, durable);
    const [here, there] = [await following(one, address), await following(two, address)];
    await one.put(
      address,
      frame({ payload: { a: "\ud800" }, metadata: [1], processor: { slug: "s", version: "1", whileProcessing: null } }),
    );
    await Promise.all([reaches(here, 3), reaches(there, 3)]);
    const event = here.pages.at(-1)!.events.at(-1)!;
    expect(there.pages.at(-1)!.events.at(-1)).toEqual(event);
    expect(event).toMatchObject({ ephemeral: true, offset: 3n, type: "test/progress-frame", source: { processor: { slug: "s" } } });
  });

  test("begins with those that come after it", async () => {
    const address = newContext();
    await one.put(address, durable, frame());
    const first = await following(one, address);
    await one.put(address, frame());
    expect(await reaches(first, 4)).toEqual([1, 2, 4]);
    const second = await following(one, address);
    await one.put(address, frame());
    expect(await reaches(second, 5)).toEqual([1, 2, 5]);
  });

  test("subscribes to a partition once, while someone listens", async () => {
    const address = newContext();
    await one.put(address, durable);
    const all = [await following(two, address), await following(two, address)];
    expect(two.news.heardLive.subscriptions).toBe(1);
    for (const follower of all) await follower.leave();
    expect(two.news.heardLive.subscriptions).toBe(0);
  });

  test("never has a superseded writer's events after the commit that superseded it", async () => {
    const address = newContext();
    await one.put(address, frame());
    await eventually(() => one.news.livePublisher.counts.messages === 1);
    await one.broker.flush();
    const follower = await following(two, address);
    await quiet(one, two);
    expect(await two.put(address, durable)).toEqual([blockOffsets + 2]);
    await reaches(follower, blockOffsets + 2);
    // The writer may not know yet; as soon as it hears of the commit it begins a block of its own.
    let last = 0;
    await eventually(async () => {
      [last] = (await one.put(address, frame())) as [number];
      return last > blockOffsets + 2;
    });
    expect(await reaches(follower, last)).toEqual([1, blockOffsets + 2, last]);
  });

  test("is in offset order, and whole in stored events, under load from two processes", async () => {
    const address = newContext();
    await one.put(address, durable);
    const all = [await following(one, address), await following(two, address)];
    const stored: number[] = [];
    const write = async (pod: WritingPod): Promise<void> => {
      for (let n = 0; n < 150; n += 1) {
        const offsets = await pod.put(address, ...(n % 3 === 0 ? [frame(), durable, frame()] : [frame()]));
        if (n % 3 === 0) stored.push(offsets[1]!);
        if (n % 25 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await Promise.all([write(one), write(two)]);
    const [last] = await one.put(address, durable);
    stored.push(last!);
    for (const follower of all) {
      await follower.until(last!);
      expect(follower.offsets).toEqual(follower.offsets.toSorted((a, b) => a - b));
      expect(new Set(follower.offsets).size).toBe(follower.offsets.length);
      const seen = new Set(follower.offsets);
      expect(stored.filter((offset) => !seen.has(offset))).toEqual([]);
      expect(follower.offsets.length).toBeGreaterThan(stored.length + 2);
    }
  });

  test("does not miss one that a single process writes at leisure, beside stored ones", async () => {
    const address = newContext();
    await one.put(address, durable);
    const follower = await following(two, address);
    await quiet(two);
    let last = 2;
    for (let n = 0; n < 100; n += 1) {
      last = (await one.put(address, ...(n % 4 === 3 ? [durable] : [frame()]))).at(-1)!;
      if (n % 10 === 9) expect(await reaches(follower, last)).toEqual(upTo(last));
    }
  });

  test("loses what was told while the broker was away, and nothing that is stored", async () => {
    const address = newContext();
    await one.put(address, durable);
    const [here, there] = [await following(one, address), await following(two, address)];
    await nats.server.kill();
    await eventually(() => one.broker.status() !== "connected" && two.broker.status() !== "connected");
    expect(await one.put(address, frame())).toEqual([3]);
    expect(await one.put(address, durable)).toEqual([4]);
    expect(await reaches(here, 4)).toEqual([1, 2, 3, 4]);
    expect(await reaches(there, 4)).toEqual([1, 2, 4]);
    expect(one.news.livePublisher.counts.dropped).toBe(1);
    await nats.server.start();
    await eventually(() => one.broker.status() === "connected" && two.broker.status() === "connected", { timeoutMs: 15_000 });
    await two.broker.flush();
    await one.put(address, frame());
    expect(await reaches(there, 5)).toEqual([1, 2, 4, 5]);
  });

  test("is not led astray by messages that are repeated, late, forged or no messages at all", async () => {
    const address = newContext();
    await one.put(address, durable);
    const follower = await following(two, address);
    const partition = partitionOf(address.owner, address.path);
    const raw = await connect({ servers: nats.url });
    const heard: Uint8Array[] = [];
    raw.subscribe(`live.${partition}`, { callback: (_, { data }) => void heard.push(data) });
    await raw.flush();
    await one.put(address, frame());
    await one.put(address, durable);
    await one.put(address, frame());
    await reaches(follower, 5);
    await eventually(() => heard.length === 2);
    const [late, current] = heard.map((data) => LiveBatch.decode(data).runs[0]!) as [LiveRun, LiveRun];
    const [event] = current.events;
    const at = (offset: number): LiveRun["events"] => [{ ...event!, offset: BigInt(offset) }];
    const lies: Partial<LiveRun>[] = [
      {},
      { ...late },
      { events: at(4) },
      { events: at(3_000) },
      { afterOffset: 3n, events: at(6) },
      { commitNo: 900n, events: at(6) },
      { commitNo: 0n },
      { commitNo: -1n },
      { commitNo: 2n ** 62n },
      { afterOffset: -5n },
      { events: [{ ...event!, ephemeral: false, offset: 6n }] },
      { events: [{ ...event!, idempotencyKey: "k", offset: 6n }] },
      { events: [...at(7), ...at(6)] },
      { context: undefined },
      { context: { owner: address.owner, path: `${address.path}-elsewhere` } },
    ];
    const malformed = two.news.heardLive.malformed;
    for (const lie of lies) raw.publish(`live.${partition}`, LiveBatch.encode({ runs: [{ ...current, ...lie }] }).finish());
    raw.publish(`live.${partition}`, Uint8Array.from([0x0a, 0xff, 0xff, 0xff]));
    raw.publish(`live.${partition}`, Buffer.from("hello"));
    raw.publish(`live.${(partition + 1) % 256}`, heard[0]);
    await raw.flush();
    await raw.close();
    await one.put(address, frame());
    expect(await reaches(follower, 6)).toEqual(upTo(6));
    expect(two.news.heardLive.malformed - malformed).toBeGreaterThanOrEqual(9);
    await eventually(() => two.news.hub.droppedEphemerals >= 5);
  });

  test("has the largest there can be in the process that took it, also when it came with a commit", async () => {
    const address = newContext();
    await one.put(address, durable);
    const follower = await following(one, address);
    await one.put(address, frame({ payload: ofSize(6_000_000) }));
    expect(await reaches(follower, 3)).toEqual(upTo(3));
    await one.put(address, durable, frame({ payload: ofSize(6_000_000) }));
    expect(await reaches(follower, 5)).toEqual(upTo(5));
  });

  test("has one that is larger than a message in the process that took it alone", async () => {
    const address = newContext();
    await one.put(address, durable);
    const [here, there] = [await following(one, address), await following(two, address)];
    await one.put(address, frame({ payload: ofSize(maxMessageBytes) }));
    await reaches(here, 3);
    await one.put(address, frame({ payload: ofSize(maxMessageBytes - 2_048) }));
    expect(await reaches(here, 4)).toEqual([1, 2, 3, 4]);
    expect(await reaches(there, 4)).toEqual([1, 2, 4]);
    expect(one.news.livePublisher.counts).toMatchObject({ events: 2, messages: 1, dropped: 1 });
  });
});

describe("a wait", () => {
  const wait = async (pod: WritingPod, address: ContextAddress, after?: number, type = "test/progress-frame"): Promise<number> => {
    const event = await pod.waits.wait(
      { address, types: [type], payload: undefined, after, timeoutMs: 10_000 },
      new AbortController().signal,
    );
    return Number(event.offset);
  };
  const standing = (pod: WritingPod, count: number): Promise<unknown> => eventually(() => pod.waits.standing === count);

  test("is answered by an ephemeral event that comes while it waits, through any process, in the order of waiters", async () => {
    const address = newContext();
    await one.put(address, durable, frame());
    const answered: number[] = [];
    const waiting: Promise<unknown>[] = [];
    for (let at = 0; at < 3; at += 1) {
      waiting.push(wait(two, address).then((offset) => answered.push(100 * at + offset)));
      await standing(two, at + 1);
    }
    const here = wait(one, address);
    await standing(one, 1);
    await two.broker.flush();
    await one.put(address, frame());
    await Promise.all(waiting);
    expect(await here).toBe(4);
    expect(answered).toEqual([4, 104, 204]);
  });

  test("does not look for one in the past", async () => {
    const address = newContext();
    await one.put(address, durable, frame());
    const waiting = wait(one, address, 0);
    await standing(one, 1);
    await one.put(address, durable);
    await one.put(address, frame());
    expect(await waiting).toBe(5);
  });

  test("that is still looking through the past is answered by an ephemeral event that came before what it finds there", async () => {
    const address = newContext();
    await one.put(address, { ...durable, type: "test/other" });
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const waits = new Waits({
      heads: one.heads,
      live: one.news.hub,
      maxWaiters: 2,
      // Scans name types; the line that serves all waiters does not.
      reader: {
        read: async (...asked) => {
          if (asked[2].length > 0) await gate;
          return one.reader.read(...asked);
        },
      },
    });
    const ask = (after: number | undefined): Promise<number> =>
      waits
        .wait({ address, types: ["test/done"], payload: undefined, after, timeoutMs: 10_000 }, new AbortController().signal)
        .then(({ offset }) => Number(offset));
    const [past, next] = [ask(0), ask(undefined)];
    await eventually(() => waits.standing === 2);
    expect(await one.put(address, frame({ type: "test/done" }))).toEqual([3]);
    expect(await one.put(address, durable)).toEqual([4]);
    expect(await next).toBe(3);
    open();
    expect(await past).toBe(3);
  });

  test("is answered by the earlier of an ephemeral and a stored event", async () => {
    const address = newContext();
    await one.put(address, durable);
    const waiting = wait(one, address, undefined, "test/done");
    await standing(one, 1);
    await quiet(one);
    await one.put(address, frame({ type: "test/done" }), durable);
    expect(await waiting).toBe(3);
  });
});

test("the feed has no event for a reservation, and listeners of stored events are not woken by it", async () => {
  const address = newContext();
  await one.put(address, durable);
  const follower = await following(two, address, "stored");
  await one.put(address, frame());
  const feed = await listCommits(new PostgresLogStore(one.pool), partitionOf(address.owner, address.path), "", 1_000);
  const commits = feed.commits.filter(({ context }) => context?.path === address.path);
  expect(commits).toMatchObject([
    { commitNo: 1n, firstOffset: 1n, lastOffset: 2n },
    { commitNo: 2n, firstOffset: 3n, lastOffset: 2n, lastControl: 1n, events: [] },
  ]);
  await one.put(address, durable);
  expect((await follower.until(4)).pages.at(-1)!.events).toHaveLength(1);
  expect(follower.offsets).toEqual([1, 2, 4]);
});
