/** Two databases behind one service: nothing shows where a context is, and what one of them suffers the other's contexts do not. */
import { fileURLToPath } from "node:url";
import { partitionOf } from "@iterate-platform/service/ids";
import { AppendRequest, StreamEventsRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { eventually, FaultProxy, type TestDatabase } from "@iterate-platform/testing";
import { ServiceProcess } from "@iterate-platform/testing/service-process";
import { afterAll, beforeAll, expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { nameOf, type Place } from "./load.js";
import { count, isLong, testBoundMs } from "./scale.js";
import { select } from "./truth.js";

/** Partitions below it are in the first database. */
const border = 128;
const cluster = useCluster({ pods: 0 });
const databases: TestDatabase[] = [];
let second: FaultProxy;

beforeAll(async () => {
  databases.push(await cluster.postgres.createDatabase(), await cluster.postgres.createDatabase());
  const [one, two] = databases as [TestDatabase, TestDatabase];
  second = await FaultProxy.start(two.url);
  const main = fileURLToPath(new URL("../../services/context/src/main.ts", import.meta.url));
  const { trustedKeysFile } = cluster.deployment.files;
  const shards = (secondUrl: string): string => `0-${border - 1}=${one.url},${border}-255=${secondUrl}`;
  const migration = ServiceProcess.spawn(
    main,
    {
      DATABASE_URL: one.url,
      CONTEXT_SHARDS: shards(two.url),
      ITERATE_SECRET_KEYS: cluster.deployment.secretKeys,
      ITERATE_TRUSTED_KEYS_FILE: trustedKeysFile,
    },
    { args: ["migrate"] },
  );
  expect((await migration.exited).code, migration.lines.join("\n")).toBe(0);
  await Promise.all([
    cluster.addPod({ CONTEXT_SHARDS: shards(second.url(two.url)) }),
    cluster.addPod({ CONTEXT_SHARDS: shards(second.url(two.url)) }),
  ]);
}, 120_000);
afterAll(async () => {
  second?.stop();
  for (const database of databases) await database.drop();
});

/** As many contexts in each database. */
function placesInBoth(each: number): Place[] {
  const owners = [newId("prj"), newId("prj")];
  const places: Place[] = [];
  for (const isLow of [true, false])
    for (let n = 0, found = 0; found < each; n += 1) {
      const place = { owner: owners[n % 2]!, path: `/load/${n}` };
      if (partitionOf(place.owner, place.path) < border !== isLow) continue;
      places.push(place);
      found += 1;
    }
  return places;
}

const isInSecond = ({ owner, path }: Place): boolean => partitionOf(owner, path) >= border;

test(
  "appends, reads, streams, waits and the feed go across both",
  async () => {
    const load = cluster.load({ places: placesInBoth(5) });
    await load.acknowledged(count(80));
    await cluster.expectAllPromises(
      load,
      null,
      databases.map(({ url }) => url),
    );
    for (const [index, { url }] of databases.entries()) {
      const rows = await select<{ partition: number }>(url, "select distinct partition from commit");
      expect(rows.length).toBeGreaterThan(0);
      for (const { partition } of rows) expect(partition >= border).toBe(index === 1);
    }
  },
  testBoundMs,
);

test(
  "one database away: its contexts are UNAVAILABLE, and the others notice nothing",
  async () => {
    const load = cluster.load({ places: placesInBoth(4).filter((place) => !isInSecond(place)) });
    const away = placesInBoth(1).find(isInSecond)!;
    await append(0, away);
    second.refuse();
    second.reset();
    await expect(append(0, away)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    load.history.retried.clear();
    await load.acknowledged(count(40));
    await load.stop();
    expect([...load.history.retried.keys()].filter((code) => code !== "WAIT_TIMEOUT")).toEqual([]);
    await second.heal();
    await eventually(() => append(0, away), { timeoutMs: 20_000 });
    await cluster.expectAllPromises(
      load,
      null,
      databases.map(({ url }) => url),
    );
  },
  testBoundMs,
);

test(
  "one database silent and the broker gone: subscribers of the other still hear of commits at once",
  async () => {
    const places = placesInBoth(2);
    const [here] = places.filter((place) => !isInSecond(place));
    const [silent] = places.filter(isInSecond);
    await Promise.all([append(0, here!), append(0, silent!)]);
    const leaving = new AbortController();
    const follow = (place: Place) =>
      cluster.pod(1).clients.context.streamEvents(StreamEventsRequest.fromPartial({ context: place, afterOffset: 0n }), {
        signal: leaving.signal,
      });
    const heard = follow(here!);
    const unheard = follow(silent!);
    await Promise.all([heard.next(), unheard.next()]);
    await cluster.nats.kill();
    second.drop();
    let slowestMs = 0;
    for (let round = 0; round < count(8); round += 1) {
      const offset = await append(0, here!);
      const from = performance.now();
      for (let through = 0; through < offset;) through = Number((await heard.next()).value!.scannedThroughOffset);
      slowestMs = Math.max(slowestMs, performance.now() - from);
    }
    await second.heal();
    await cluster.nats.start();
    leaving.abort(new Error("enough"));
    // A confirmation every 500 ms, and what a busy machine adds; the silent database is given up after 7 s.
    expect(slowestMs).toBeLessThan(3_000);
  },
  testBoundMs,
);

test.runIf(isLong)(
  "a process stays ready while one of its databases answers",
  async () => {
    second.refuse();
    second.reset();
    const pod = cluster.pod(0);
    await eventually(async () => (await pod.process.metric('iterate_progress_age_seconds{loop="database 1"')) > 35, {
      timeoutMs: 60_000,
    }).catch(() => undefined);
    expect((await pod.process.admin("/readyz")).status).toBe(200);
    await second.heal();
  },
  testBoundMs,
);

async function append(pod: number, context: Place): Promise<number> {
  const { receipts } = await cluster.pod(pod).clients.context.append(
    AppendRequest.fromPartial({
      context,
      appendId: uuidv7(),
      events: [{ type: "test/a", payload: Buffer.from("1"), metadata: Buffer.from(`{"owner":"${nameOf(context)}"}`) }],
    }),
    { deadlineMs: 15_000 },
  );
  return Number(receipts[0]!.offset);
}
