/** Subscribers that do not read while a large backlog waits for them: the process holds a few pages for each, and nobody else is slower. */
import { AppendRequest, StreamEventsRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { eventually } from "@iterate-platform/testing";
import { expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { count, isLong, testBoundMs } from "./scale.js";

const cluster = useCluster({ pods: 1 });
const backlog = isLong ? 1_000_000 : 10_000;
const readers = 16;
const text = "x".repeat(3_000);
/** Some pages of half a megabyte for each reader, as bytes and as objects, and garbage; all that waits for them is 480 MB or more. */
const mayGrowBytes = 300_000_000;

test(
  `hold the process at bounded memory with ${backlog} events before them`,
  async () => {
    const pod = cluster.pod(0);
    const place = { owner: newId("prj"), path: "/backlog" };
    for (let written = 0; written < backlog; written += 1_000)
      await pod.clients.context.append(
        AppendRequest.fromPartial({
          context: place,
          appendId: uuidv7(),
          events: Array.from({ length: 1_000 }, (_, n) => ({
            type: "test/a",
            payload: Buffer.from(`{"n":${written + n},"text":"${text}"}`),
          })),
        }),
        { deadlineMs: 30_000 },
      );
    const memory = (): Promise<number> => pod.process.metric('process_memory_usage_bytes{kind="rss"');
    const load = cluster.load();
    await load.acknowledged(count(20));
    const before = await memory();
    const leaving = new AbortController();
    const streams = Array.from({ length: readers }, () =>
      pod.clients.context.streamEvents(StreamEventsRequest.fromPartial({ context: place, afterOffset: 0n }), {
        signal: leaving.signal,
      }),
    );
    const first = await Promise.all(streams.map(async (stream) => (await stream.next()).value!));
    for (const { events } of first) expect(events.length).toBeGreaterThan(0);
    let most = before;
    for (let round = 0; round < 5; round += 1) {
      await load.acknowledged(count(20));
      most = Math.max(most, await memory());
    }
    expect(most - before).toBeLessThan(mayGrowBytes);
    await cluster.expectAllPromises(load);

    const [patient] = streams;
    let through = Number(first[0]!.scannedThroughOffset);
    let seen = first[0]!.events.length;
    while (through < backlog + 1) {
      const { value } = await patient!.next();
      seen += value!.events.length;
      through = Number(value!.scannedThroughOffset);
    }
    expect(seen, "none was lost").toBe(backlog + 1);
    leaving.abort(new Error("enough"));
    await eventually(async () => (await pod.process.metric("iterate_context_streams_open")) === 0, { timeoutMs: 15_000 });
  },
  testBoundMs,
);
