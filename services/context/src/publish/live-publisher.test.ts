import { LiveBatch } from "@iterate-platform/proto/iterate/context/v1/live";
import { beforeEach, expect, test } from "vitest";
import { unborn } from "../log/head-cache.js";
import type { ContextHead } from "../log/contract.js";
import type { Timers } from "../timers.js";
import type { ToldEphemeral } from "./contract.js";
import { batchMs, LivePublisher, maxMessageBytes } from "./live-publisher.js";
import type { NewsBroker } from "./news-broker.js";
import { quietLog } from "./pod.fixture.js";

/** Time that passes when a test says so. */
class Clock implements Timers {
  #now = 0;
  #due: { readonly atMs: number; readonly work: () => void }[] = [];
  nowMs(): number {
    return this.#now;
  }
  soon(work: () => void): void {
    this.after(0, work);
  }
  after(ms: number, work: () => void): () => void {
    const due = { atMs: this.#now + ms, work };
    this.#due.push(due);
    return () => void (this.#due = this.#due.filter((other) => other !== due));
  }
  to(nowMs: number): void {
    this.#now = nowMs;
    const ready = this.#due.filter(({ atMs }) => atMs <= nowMs);
    this.#due = this.#due.filter(({ atMs }) => atMs > nowMs);
    for (const { work } of ready) work();
  }
}

let clock: Clock;
let isConnected: boolean;
/** `subject: context@commit>after+events …` */
let sent: string[];
/** Bytes of each. */
let sizes: number[];
let publisher: LivePublisher;
beforeEach(() => {
  clock = new Clock();
  isConnected = true;
  [sent, sizes] = [[], []];
  const broker = {
    status: () => (isConnected ? "connected" : "reconnecting"),
    publish: (subject: string, body: Uint8Array) => {
      sizes.push(body.length);
      if (isConnected)
        sent.push(
          `${subject}: ${LiveBatch.decode(body)
            .runs.map(
              ({ context, commitNo, afterOffset, events }) => `${context!.path}@${commitNo}>${afterOffset}+${events.length}`,
            )
            .join(" ")}`,
        );
      return isConnected;
    },
  } as unknown as NewsBroker;
  publisher = new LivePublisher({ broker, log: quietLog, inbox: "_INBOX.a", timers: clock });
});

const context = (contextId: number, partition = 7): ContextHead => ({
  ...unborn({ owner: "prj_1", path: `/${contextId}` }),
  contextId,
  partition,
});
const told = (offset: number, { commitNo = 1, after = 1, bytes = 100 } = {}): ToldEphemeral => ({
  event: {
    offset: BigInt(offset),
    type: "t",
    ephemeral: true,
    createdAtUs: 0n,
    idempotencyKey: "",
    traceparent: "",
    formatVersion: 1,
  },
  offset,
  after,
  commitNo,
  bytes,
});

test("the first event leaves at the end of its turn, what follows within 5 ms in one message", () => {
  publisher.add(context(1), [told(2)]);
  expect(sent).toEqual([]);
  clock.to(0);
  expect(sent).toEqual(["live.7: /1@1>1+1"]);
  publisher.add(context(1), [told(3)]);
  clock.to(1);
  publisher.add(context(2), [told(2)]);
  publisher.add(context(1), [told(4), told(6, { commitNo: 2, after: 5 })]);
  clock.to(batchMs - 1);
  expect(sent).toHaveLength(1);
  clock.to(batchMs);
  expect(sent.slice(1)).toEqual(["live.7: /1@1>1+1 /2@1>1+1 /1@1>1+1 /1@2>5+1"]);
  clock.to(2 * batchMs);
  publisher.add(context(1, 8), [told(7)]);
  publisher.add(context(1), [told(7)]);
  clock.to(2 * batchMs);
  expect(sent.slice(2)).toEqual(["live.8: /1@1>1+1", "live.7: /1@1>1+1"]);
  expect(publisher.counts).toEqual({ events: 7, messages: 4, dropped: 0 });
});

test("what a commit supersedes leaves before it, and what belongs to other contexts waits on", () => {
  publisher.add(context(1), [told(2)]);
  publisher.flush(context(2));
  publisher.flush(context(3, 9));
  expect(sent).toEqual([]);
  publisher.flush(context(1));
  expect(sent).toEqual(["live.7: /1@1>1+1"]);
  clock.to(batchMs);
  expect(sent).toHaveLength(1);
});

test("a message holds no more than the broker takes, and what is larger alone is dropped", () => {
  const head = 32 + "prj_1".length + 3 * "/1".length;
  publisher.add(context(1), [told(2, { bytes: maxMessageBytes - head - 1 }), told(3, { bytes: 1 }), told(4, { bytes: 1 })]);
  expect(sent).toEqual(["live.7: /1@1>1+2"]);
  publisher.add(context(1), [told(5, { bytes: maxMessageBytes + 1 })]);
  publisher.close();
  expect(sent).toEqual(["live.7: /1@1>1+2", "live.7: /1@1>1+1"]);
  publisher.add(context(1), [told(6)]);
  expect(publisher.counts).toEqual({ events: 5, messages: 2, dropped: 2 });
  expect(publisher.waitingBytes).toBe(0);
});

test("contexts with long paths that take turns are held to it too", () => {
  const deep = (contextId: number): ContextHead => ({
    ...context(contextId),
    address: { owner: "prj_1", path: `/${contextId}${"p".repeat(1_000)}` },
  });
  for (let n = 1; n <= 4_000; n += 1) publisher.add(deep(n), [told(2)]);
  publisher.close();
  expect(publisher.counts).toMatchObject({ events: 4_000, dropped: 0 });
  expect(sizes.length).toBeGreaterThan(1);
  expect(Math.max(...sizes)).toBeLessThan(1_048_576);
});

test("nothing is kept for a broker that is away", () => {
  publisher.add(context(1), [told(2)]);
  isConnected = false;
  clock.to(0);
  publisher.add(context(1), [told(3), told(4)]);
  isConnected = true;
  clock.to(batchMs);
  expect(sent).toEqual([]);
  expect(publisher.counts).toEqual({ events: 3, messages: 0, dropped: 3 });
});
