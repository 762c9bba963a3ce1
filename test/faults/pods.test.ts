import { test } from "vitest";
import { useCluster } from "./cluster.js";
import { count, testBoundMs } from "./scale.js";

const cluster = useCluster();

test(
  "two pods that share 64 contexts without affinity keep every promise",
  async () => {
    const load = cluster.load({ contexts: 32, writers: 12 });
    await load.acknowledged(count(300));
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);
