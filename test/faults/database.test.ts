/** The database server itself: ended as by a power cut and started again, and read-only as after a failover to a standby. */
import { eventually } from "@iterate-platform/testing";
import { expect, test } from "vitest";
import { ReadEventsRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { useCluster } from "./cluster.js";
import { count, testBoundMs } from "./scale.js";
import { select } from "./truth.js";

const cluster = useCluster({ postgres: "private" });

test(
  "a server that is killed and recovers loses nothing that was acknowledged",
  async () => {
    const load = cluster.load();
    for (let round = 0; round < count(1); round += 1) {
      await load.acknowledged(30);
      await cluster.server.kill();
      await eventually(() => (load.history.retried.get("UNAVAILABLE") ?? 0) > round, { timeoutMs: 15_000 });
      await cluster.server.start();
      await load.acknowledged(30);
    }
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);

test(
  "a server that takes no writes: reads go on, appends are told to come back, and do",
  async () => {
    const load = cluster.load();
    await load.acknowledged(count(20));
    await readOnly("on");
    await eventually(() => load.history.retried.has("UNAVAILABLE"), { timeoutMs: 30_000 });
    const reads = load.history.reads.length;
    await eventually(() => load.history.reads.length > reads + 10, { timeoutMs: 15_000 });
    const [place] = load.places;
    const page = await cluster.pod(1).clients.context.readEvents(ReadEventsRequest.fromPartial({ context: place! }));
    expect(page.atHead).toBe(true);
    await readOnly("off");
    await load.acknowledged(count(20));
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);

async function readOnly(value: "on" | "off"): Promise<void> {
  await select(cluster.server.adminUrl, `alter system set default_transaction_read_only = ${value}`);
  await select(cluster.server.adminUrl, "select pg_reload_conf()");
}
