/** What runners make of the log while they, the log and the broker break: every event is answered once, and no delivery is left behind. */
import { AppendRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { uuidv7 } from "@iterate-platform/service/ids";
import { itx } from "iterate/events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { failpointsOf } from "./failpoint-list.js";
import type { SentEvent } from "./history.js";
import type { Load, Place } from "./load.js";
import { RunnerSide, runnerSources } from "./runner-side.js";
import { count, testBoundMs } from "./scale.js";

const failpoints = failpointsOf(runnerSources);
const cluster = useCluster({ pods: 1 });
let runners: RunnerSide;
beforeAll(async () => {
  runners = await RunnerSide.prepare(cluster);
});
afterAll(() => runners?.stop());

const tick = (_: unknown, owner: string, mark: string): SentEvent => ({
  type: "tick",
  payload: '{"n": 1}',
  metadata: `{"owner":"${owner}","mark":"${mark}"}`,
  key: "",
});

async function loadOfTicks(): Promise<Load> {
  const places = runners.places(4);
  for (const place of places) await subscribe(place);
  return cluster.load({ places, fresh: tick, writers: 2 });
}

async function subscribe(place: Place): Promise<void> {
  const payload = {
    name: "counter",
    target: ["itx", "builtins", "processors", ["get", "counter"]],
    consumes: ["tick"],
    afterOffset: 0,
  };
  await cluster.pod(0).clients.context.append(
    AppendRequest.fromPartial({
      context: place,
      appendId: uuidv7(),
      events: [{ type: itx.subscriptionConfigured.type, payload: Buffer.from(JSON.stringify(payload)) }],
    }),
  );
}

/** Ends the writers, lets the runners finish, and expects every promise of the log and of its deliveries to hold. */
async function expectAllPromises(load: Load): Promise<void> {
  await load.stopWriting();
  const books = await runners.settled(load.places);
  await cluster.expectAllPromises(load, books);
  const secrets = cluster.secrets().filter(({ text }) => runners.lines.some((line) => line.includes(text)));
  expect(secrets.map(({ what }) => what)).toEqual([]);
}

test(
  `runners killed at ${failpoints.join(", then at ")}, then the log killed, its connections reset and the broker emptied`,
  async () => {
    const load = await loadOfTicks();
    for (const failpoint of failpoints) {
      const victim = runners.runner({ FAILPOINTS: `${failpoint}=kill@2` });
      await load.acknowledged(count(3));
      expect(await victim.exited, `the load passes ${failpoint}`).toEqual({ code: null, signal: "SIGKILL" });
    }
    runners.runner();
    await load.acknowledged(count(3));
    await cluster.nats.kill();
    cluster.nats.loseData();
    await load.acknowledged(count(3));
    await cluster.pod(0).kill();
    await cluster.pod(0).restart();
    await load.acknowledged(count(3));
    cluster.pod(0).database.reset();
    await cluster.nats.start();
    await load.acknowledged(count(3));
    await expectAllPromises(load);
  },
  testBoundMs,
);
