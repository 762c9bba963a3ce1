/** kill -9 at every failpoint of the service, while another process serves and the clients send again what was not answered. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { failpointsOf } from "./failpoint-list.js";
import { count, testBoundMs } from "./scale.js";

const failpoints = failpointsOf(fileURLToPath(new URL("../../services/context/src", import.meta.url)));
/** No load passes these by itself: they have a suite of their own. */
const ownSuites = ["retention.", "schedules.", "children."];
const passed = failpoints.filter((name) => !ownSuites.some((prefix) => name.startsWith(prefix)));
const cluster = useCluster({ pods: 1 });

test("there are failpoints before and after a commit", () => {
  expect(failpoints).toEqual(expect.arrayContaining(["append.after-commit", "append.before-commit"]));
});

test(
  `a process killed at ${passed.join(", then at ")} loses nothing, repeats nothing and comes back`,
  async () => {
    const armed = (failpoint: string) => ({ FAILPOINTS: `${failpoint}=kill@${count(15)}` });
    const victim = await cluster.addPod(armed(passed[0]!));
    const load = cluster.load();
    for (const [index, failpoint] of passed.entries()) {
      if (index > 0) await victim.restart(armed(failpoint));
      expect(await victim.process.exited, `the load passes ${failpoint}`).toEqual({ code: null, signal: "SIGKILL" });
      await load.acknowledged(count(15));
    }
    await victim.restart();
    await load.acknowledged(count(20));
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);
