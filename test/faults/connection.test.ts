/** Connections that end at the wrong moment: between a commit and its answer, between a client and its answer, silently, with a reset. */
import { FaultProxy } from "@iterate-platform/testing";
import { createClient } from "@iterate-platform/service/grpc-client";
import { ContextServiceClient } from "@iterate-platform/proto/iterate/context/v1/context";
import { afterAll, beforeAll, expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { count, testBoundMs } from "./scale.js";

const cluster = useCluster();
let door: FaultProxy;
beforeAll(async () => {
  door = await FaultProxy.start(cluster.pod(0).url);
});
afterAll(() => door?.stop());

test(
  "a connection cut between a commit and its answer, again and again",
  async () => {
    const load = cluster.load();
    const { database } = cluster.pod(0);
    for (let round = 0; round < count(4); round += 1) {
      await load.acknowledged(10);
      // Bodies of events are in commits alone: what is cut off is the answer to one.
      await database.cutAtAnswer({ afterClientText: '"mark":"' });
    }
    await load.acknowledged(count(20));
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);

test(
  "a client's connection cut between what it sent and the answer",
  async () => {
    const clients = { ...cluster.pod(0).clients, context: contextThrough(door) };
    const load = cluster.load({ doors: [clients, cluster.pod(1).clients] });
    for (let round = 0; round < count(4); round += 1) {
      await load.acknowledged(10);
      await door.cutAtAnswer({ afterClientText: "/load/" });
    }
    await load.acknowledged(count(20));
    expect(load.history.retried.get("UNAVAILABLE") ?? 0, "clients felt it").toBeGreaterThan(0);
    await cluster.expectAllPromises(load);
    clients.context.close();
  },
  testBoundMs,
);

test(
  "database connections reset, all of a process at once",
  async () => {
    const load = cluster.load();
    for (let round = 0; round < count(5); round += 1) {
      await load.acknowledged(20);
      expect(cluster.pod(round % 2).database.reset()).toBeGreaterThan(0);
    }
    await load.acknowledged(count(20));
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);

test(
  "a database that falls silent for one process, and later takes what it was sent meanwhile",
  async () => {
    const load = cluster.load();
    const [silent] = cluster.pods;
    await load.acknowledged(count(10));
    silent!.database.drop();
    // The other process goes on, also with the contexts whose commits are held up; what is held up arrives after they have moved.
    // As many in a long run too: half of what is asked waits for its deadline.
    await load.acknowledged(40);
    await silent!.database.heal();
    await load.acknowledged(count(20));
    await cluster.expectAllPromises(load);
    expect(load.history.retried.size, "clients felt it").toBeGreaterThan(0);
  },
  testBoundMs,
);

function contextThrough(proxy: FaultProxy) {
  const options = { trust: cluster.deployment.trust("ingress"), audience: "context" };
  return createClient(ContextServiceClient, `127.0.0.1:${proxy.port}`, options);
}
