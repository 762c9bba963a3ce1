/** A process held still past every patience of its clients, its database and its broker, and let go while another serves. */
import { eventually } from "@iterate-platform/testing";
import { expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { count, isLong, testBoundMs } from "./scale.js";

const cluster = useCluster();

test(
  "what it remembers when it goes on is of before, and it answers what is",
  async () => {
    const load = cluster.load();
    await load.acknowledged(count(10));
    const [frozen] = cluster.pods;
    for (let round = 0; round < (isLong ? 3 : 1); round += 1) {
      const before = load.history.retried.get("DEADLINE_EXCEEDED") ?? 0;
      frozen!.process.signal("SIGSTOP");
      // Every client has waited for it and gone elsewhere; under LONG, long enough for connections to be given up.
      const patience = isLong ? 60 : 6;
      await eventually(() => (load.history.retried.get("DEADLINE_EXCEEDED") ?? 0) >= before + patience, { timeoutMs: 60_000 });
      await load.acknowledged(count(20));
      frozen!.process.signal("SIGCONT");
      await load.acknowledged(count(20));
    }
    await cluster.expectAllPromises(load);
    expect((await frozen!.process.admin("/readyz")).status).toBe(200);
  },
  testBoundMs,
);
