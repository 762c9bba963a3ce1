import { CommitBatch } from "@iterate-platform/proto/iterate/context/v1/feed";
import { expect, test } from "vitest";
import { initialCore } from "../core/fold.js";
import type { CommittedContext, StorableEvent } from "../log/contract.js";
import { plainSource } from "../log/sql-log.fixture.js";
import { PendingBucket } from "./pending-bucket.js";

const storable = (bytes: number): StorableEvent => ({
  type: "test/a",
  payload: Buffer.from(JSON.stringify("x".repeat(bytes - 2))),
  metadata: null,
  idempotencyKey: null,
  bodyDigest: null,
  expectedOffset: null,
  source: plainSource,
  traceparent: null,
  formatVersion: 1,
  control: undefined,
  isEphemeral: false,
  bytes,
});

function committed(contextId: number, commitNo: number, events: readonly StorableEvent[] = [storable(100)]): CommittedContext {
  const firstOffset = commitNo * 10;
  const lastOffset = firstOffset + events.length - 1;
  const core = initialCore;
  const head = {
    address: { owner: "prj_1", path: `/${contextId}` },
    contextId,
    partition: 7,
    createdAtUs: 1,
    commitNo,
    lastOffset,
    reservedThrough: lastOffset,
    lastControl: 1,
    runnerEpoch: 0,
    generation: 1,
    core,
  };
  const rows = events.map((event, at) => ({ event, offset: firstOffset + at }));
  return { head, commitNo, firstOffset, lastOffset, rows, traceparent: null };
}

const taken = (bucket: PendingBucket): string[] =>
  CommitBatch.decode(bucket.take()!.body).commits.map(
    ({ context, commitNo, events, inlined }) => `${context!.path}@${commitNo}${inlined ? `+${events.length}` : ""}`,
  );

test("a message holds every commit with its events while there is room", () => {
  const bucket = new PendingBucket();
  for (const [context, commitNo] of [
    [1, 1],
    [2, 4],
    [1, 2],
  ] as const)
    expect(bucket.add(committed(context, commitNo), 5, Infinity)).toBe(true);
  expect(taken(bucket)).toEqual(["/1@1+1", "/1@2+1", "/2@4+1"]);
  expect(bucket.take()).toBeUndefined();
  expect(bucket.bytes).toBe(0);
  expect(bucket.isEmpty).toBe(true);
});

test("beyond 256 KiB of events a context is told by its last commit alone", () => {
  const bucket = new PendingBucket();
  const large = [storable(150_000)];
  bucket.add(committed(1, 1, large), 5, Infinity);
  bucket.add(committed(1, 2, large), 5, Infinity);
  const before = bucket.bytes;
  for (let commitNo = 3; commitNo <= 50; commitNo += 1) bucket.add(committed(1, commitNo), 5, Infinity);
  expect(bucket.bytes).toBe(before);
  bucket.add(committed(2, 9), 5, Infinity);
  expect(taken(bucket)).toEqual(["/1@1+1", "/1@50", "/2@9+1"]);
  bucket.add(committed(1, 51), 5, Infinity);
  expect(taken(bucket)).toEqual(["/1@51+1"]);
});

test("a commit that finds no room is refused and leaves nothing", () => {
  const bucket = new PendingBucket();
  bucket.add(committed(1, 1), 5, Infinity);
  const before = bucket.bytes;
  expect(bucket.add(committed(2, 1), 5, 100)).toBe(false);
  expect(bucket.bytes).toBe(before);
  expect(taken(bucket)).toEqual(["/1@1+1"]);
});

test("messages stay below what the broker takes, however many contexts wait", () => {
  const bucket = new PendingBucket();
  const path = `/${"€".repeat(340)}`;
  const large = [storable(300_000)];
  for (let id = 1; id <= 3_000; id += 1) {
    const commit = committed(id, 1, large);
    bucket.add({ ...commit, head: { ...commit.head, address: { owner: "prj_1", path: `${path}${id}` } } }, 5, Infinity);
  }
  let commits = 0;
  for (let next = bucket.take(); next !== undefined; next = bucket.take()) {
    expect(next.body.length).toBeLessThan(1_000_000);
    commits += next.commits;
  }
  expect(commits).toBe(3_000);
  expect(bucket.bytes).toBe(0);
});

test("an event is published as a read of the log answers it", () => {
  const bucket = new PendingBucket();
  const event = { ...storable(10), metadata: Buffer.from(" null "), idempotencyKey: "k", traceparent: "00-1", formatVersion: 3 };
  bucket.add(committed(1, 2, [event]), 1_700_000_000_000_001, Infinity);
  const [commit] = CommitBatch.decode(bucket.take()!.body).commits;
  expect(commit).toMatchObject({
    partition: 7,
    commitNo: 2n,
    firstOffset: 20n,
    lastOffset: 20n,
    lastControl: 1n,
    atUs: 1_700_000_000_000_001n,
  });
  expect(commit!.events[0]).toMatchObject({
    offset: 20n,
    type: "test/a",
    payload: event.payload,
    metadata: event.metadata,
    idempotencyKey: "k",
    createdAtUs: 1_700_000_000_000_001n,
    traceparent: "00-1",
    formatVersion: 3,
    source: { origin: "/", cause: { depth: 0 }, platform: true },
  });
});
