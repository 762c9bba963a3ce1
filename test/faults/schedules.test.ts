/** kill -9 at every failpoint of firing, two pods at the same schedules: nothing fires twice, early or in part, and nothing stops for good. */
import { fileURLToPath } from "node:url";
import { AppendRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { eventually } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { failpointsOf } from "./failpoint-list.js";
import type { SeenEvent } from "./history.js";
import type { Place } from "./load.js";
import { count, testBoundMs } from "./scale.js";
import { select, wholeLog } from "./truth.js";

const failpoints = failpointsOf(fileURLToPath(new URL("../../services/context/src", import.meta.url))).filter((name) =>
  name.startsWith("schedules."),
);
const cluster = useCluster({ pods: 1 });
const everyMs = 1_000;
const owner = newId("prj");
const places = Array.from({ length: 6 }, (_, n) => ({ owner, path: `/scheduled/${n}` }));
/** Longer than the claim of a pod that is gone. */
const patience = { timeoutMs: 40_000, intervalMs: 200 };

type Fired = { readonly key: string; readonly scheduledAtOffset: number; readonly at: string; readonly nextAt: string | null };

test(
  `a pod killed at ${failpoints.join(", then at ")} leaves its firings to the other, each once`,
  async () => {
    expect(failpoints).toEqual([
      "schedules.after-append",
      "schedules.after-claim",
      "schedules.before-append",
      "schedules.before-claim",
    ]);
    const armed = (failpoint: string) => ({ FAILPOINTS: `${failpoint}=kill@${count(3)}` });
    await Promise.all(places.map((place) => set(place, "tick", { everyMs })));
    const victim = await cluster.addPod(armed(failpoints[0]!));
    const load = cluster.load();
    for (const [index, failpoint] of failpoints.entries()) {
      if (index > 0) await victim.restart(armed(failpoint));
      // Both pods go for what is due: the victim gets its share.
      await Promise.all(places.map((place) => set(place, `once-${index}`, { afterMs: 50 * index })));
      expect(await victim.process.exited, `the firing passes ${failpoint}`).toEqual({ code: null, signal: "SIGKILL" });
    }
    await victim.restart();
    await load.acknowledged(count(10));
    for (const place of places) {
      const firings = async (): Promise<Fired[]> => firingsOf(await wholeLog(cluster.pod(0).clients, place));
      const ended = await eventually(async () => {
        const all = await firings();
        return failpoints.every((_, index) => all.some(({ key }) => key === `once-${index}`)) && all;
      }, patience);
      const ticks = (all: readonly Fired[]): number => all.filter(({ key }) => key === "tick").length;
      await eventually(async () => ticks(await firings()) > ticks(ended), patience);
    }
    for (const place of places) for (const pod of cluster.pods) expectRight(await wholeLog(pod.clients, place));
    const early = await select(
      cluster.database.url,
      `select payload from event join context using (context_id) join event_type t using (type)
        where owner = $1 and t.name = '${itx.scheduleFired.type}' and event.created_at < (payload::json ->> 'at')::timestamptz`,
      owner,
    );
    expect(early, "nothing is fired early").toEqual([]);
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);

/** Every firing stands behind its event, is of the grid, and of no occurrence that was fired before. */
function expectRight(log: readonly SeenEvent[]): void {
  const seen = new Set<string>();
  const next = new Map<string, string | null>();
  for (const [index, event] of log.entries()) {
    if (event.type !== itx.scheduleFired.type) continue;
    const { key, scheduledAtOffset, at, nextAt } = firedOf(event);
    const name = `${key} of ${scheduledAtOffset} at ${at}`;
    expect(seen, "an occurrence is fired once").not.toContain(name);
    seen.add(name);
    expect(next.get(key) ?? at, "occurrences follow each other").toBe(at);
    next.set(key, nextAt);
    if (nextAt !== null) expect((Date.parse(nextAt) - Date.parse(at)) % everyMs).toBe(0);
    expect(log[index - 1], "its event is just before it").toMatchObject({ type: "test/due", payload: JSON.stringify({ key }) });
  }
  expect(log.filter(({ type }) => type === "test/due")).toHaveLength(seen.size);
}

function firingsOf(log: readonly SeenEvent[]): Fired[] {
  return log.filter(({ type }) => type === itx.scheduleFired.type).map(firedOf);
}

function firedOf({ payload }: SeenEvent): Fired {
  return JSON.parse(payload) as Fired;
}

async function set(context: Place, key: string, when: unknown): Promise<void> {
  const payload = JSON.stringify({ key, when, events: [{ type: "test/due", payload: { key } }] });
  const events = [{ type: itx.scheduleSet.type, payload: Buffer.from(payload) }];
  await cluster.pod(0).clients.context.append(AppendRequest.fromPartial({ context, appendId: uuidv7(), events }));
}
