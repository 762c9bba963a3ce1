/** A rollout under load: every process is asked to end in turn, and its clients are told nothing but to go elsewhere. */
import { expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { count, isLong, testBoundMs } from "./scale.js";

const cluster = useCluster();

test(
  "loses nothing, and ends each process in good order",
  async () => {
    const load = cluster.load();
    await load.acknowledged(count(10));
    for (let round = 0; round < (isLong ? 10 : 2); round += 1) {
      const pod = cluster.pod(round % cluster.pods.length);
      expect(await pod.process.terminate()).toEqual({ code: 0, signal: null });
      await pod.restart();
      await load.acknowledged(count(10));
    }
    await cluster.expectAllPromises(load);
    // DEADLINE_EXCEEDED would be an answer that never came.
    expect([...load.history.retried.keys()].filter((code) => code !== "UNAVAILABLE" && code !== "WAIT_TIMEOUT")).toEqual([]);
  },
  testBoundMs,
);
