/** kill -9 at every failpoint of giving up the past: what is to stay stays, what is to go goes later, and no reader gets a part of it. */
import { fileURLToPath } from "node:url";
import { AppendRequest, ReadEventsRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { eventually } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { expect, test } from "vitest";
import { useCluster } from "./cluster.js";
import { failpointsOf } from "./failpoint-list.js";
import type { SeenEvent } from "./history.js";
import { seen, type Place } from "./load.js";
import { count, testBoundMs } from "./scale.js";
import { select, wholeLog } from "./truth.js";

const failpoints = failpointsOf(fileURLToPath(new URL("../../services/context/src", import.meta.url))).filter((name) =>
  name.startsWith("retention."),
);
// The first pod sweeps nothing in the time of a test.
const cluster = useCluster({ pods: 1, env: { RETENTION_ROUND_MS: "3600000" } });
const often = { RETENTION_ROUND_MS: "100", RETENTION_SWEEP_MS: "100" };
const firstKept = 11;

test(
  `a process killed at ${failpoints.join(", then at ")} leaves the rest to the next, and harms nobody`,
  async () => {
    const armed = (failpoint: string) => ({ ...often, FAILPOINTS: `${failpoint}=kill` });
    const victim = await cluster.addPod(armed(failpoints[0]!));
    const load = cluster.load();
    const pasts: { readonly place: Place; readonly log: readonly SeenEvent[] }[] = [];
    for (const [index, failpoint] of failpoints.entries()) {
      if (index > 0) await victim.restart(armed(failpoint));
      const past = await prepare(`/past/${index}`);
      pasts.push(past);
      expect(await victim.process.exited, `the sweep passes ${failpoint}`).toEqual({ code: null, signal: "SIGKILL" });
      await load.acknowledged(count(5));
      // Whole or refused, never a part; what stays is there in any case.
      const whole = await read(past.place, 1);
      if (whole !== null) expect(whole.slice(0, past.log.length - 1)).toEqual(past.log.slice(1));
      await expectKept(past, 0);
    }
    // The claims of the dead have run out.
    await select(cluster.database.url, "update retention set claimed_until = now(), due_at = now()");
    await victim.restart(often);
    for (const past of pasts)
      for (const pod of cluster.pods.keys()) {
        await eventually(async () => (await read(past.place, 1, pod)) === null, { timeoutMs: 20_000 });
        await expectKept(past, pod);
      }
    await eventually(async () => (await bodiesBelow(pasts.map(({ place }) => place.owner))) === 0, { timeoutMs: 20_000 });
    await load.acknowledged(count(10));
    await cluster.expectAllPromises(load);
  },
  testBoundMs,
);

/** A context with a past, which then says that it keeps a part of it. */
async function prepare(path: string): Promise<{ place: Place; log: readonly SeenEvent[] }> {
  const place = { owner: newId("prj"), path };
  await append(place, ...Array.from({ length: 30 }, (_, n) => ({ type: "test/a", payload: `{"n" : ${n}}` })));
  const log = await wholeLog(cluster.pod(0).clients, place);
  await append(place, { type: itx.retentionConfigured.type, payload: JSON.stringify({ keepFrom: { offset: firstKept } }) });
  return { place, log };
}

async function expectKept(
  { place, log }: { readonly place: Place; readonly log: readonly SeenEvent[] },
  pod: number,
): Promise<void> {
  const kept = log.slice(firstKept - 1);
  expect((await read(place, firstKept - 1, pod))!.slice(0, kept.length)).toEqual(kept);
}

/** Rows that still hold what was to go. */
async function bodiesBelow(owners: readonly string[]): Promise<number> {
  const [left] = await select<{ bodies: number }>(
    cluster.database.url,
    `select count(*)::int as bodies from event join context using (context_id)
      where owner = any($1) and "offset" between 2 and ${firstKept - 1} and payload is not null`,
    owners,
  );
  return left!.bodies;
}

/** The log after an offset above 0, which would be the first event kept; `null` when that is given up. */
async function read(place: Place, after: number, pod = 0) {
  const { context } = cluster.pod(pod).clients;
  const request = ReadEventsRequest.fromPartial({ context: place, afterOffset: BigInt(after), limit: 1_000 });
  const page = await context.readEvents(request).catch((error: { code?: string }) => {
    if (error.code === "OFFSET_TRUNCATED") return null;
    throw error;
  });
  return page === null ? null : page.events.map(seen);
}

async function append(context: Place, ...events: { readonly type: string; readonly payload: string }[]): Promise<void> {
  const inputs = events.map(({ type, payload }) => ({ type, payload: Buffer.from(payload) }));
  await cluster.pod(0).clients.context.append(AppendRequest.fromPartial({ context, appendId: uuidv7(), events: inputs }));
}
