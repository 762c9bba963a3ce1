/** kill -9 at every failpoint of the service, while another process serves and the clients send again what was not answered. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { failpointsOf } from "./failpoint-list.js";
import { count, testBoundMs } from "./scale.js";

const failpoints = failpointsOf(fileURLToPath(new URL("../../services/context/src", import.meta.url)));
/** No load passes these by itself: they have a suite of their own. */
const ownSuites = ["retention."];
const cluster = useCluster();

test("there are failpoints before and after a commit", () => {
  expect(failpoints).toEqual(expect.arrayContaining(["append.after-commit", "append.before-commit"]));
});

test.for(failpoints.filter((name) => !ownSuites.some((prefix) => name.startsWith(prefix))))(
  "a process killed at %s loses nothing, repeats nothing and comes back",
  { timeout: testBoundMs },
  async (failpoint) => {
    const [victim] = cluster.pods;
    await victim!.process.terminate();
    await victim!.restart({ FAILPOINTS: `${failpoint}=kill@${count(20)}` });
    const load = cluster.load();
    expect(await victim!.process.exited, "the load passes the failpoint").toEqual({ code: null, signal: "SIGKILL" });
    await load.acknowledged(count(20));
    await victim!.restart();
    await load.acknowledged(count(40));
    await cluster.expectAllPromises(load);
  },
);
