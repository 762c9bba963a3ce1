/** A transaction that holds an old snapshot open, as a backup or a forgotten session does: the log is not slower for it. */
import { AppendStreamRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { newId, uuidv7 } from "@iterate-platform/service/ids";
import { createPool } from "@iterate-platform/service/postgres";
import { expect, test } from "vitest";
import type { Clients } from "../../services/context/test/context-process.js";
import { useCluster } from "./cluster.js";
import { isLong, testBoundMs } from "./scale.js";
import { select } from "./truth.js";

const cluster = useCluster({ pods: 1 });
/** As many as are in flight: nearly every append is a commit of its own, and a row updated by each would show. */
const contexts = 256;
const atOnce = 256;
const appendsOfARun = isLong ? 100_000 : 12_000;
const leastShare = 0.6;

test(
  `appends go at ${leastShare * 100} % of their rate or more`,
  async () => {
    const { clients } = cluster.pod(0);
    const owner = newId("prj");
    await rate(clients, owner, appendsOfARun / 4);
    // The machine's own moods are in every run: the slower of two without is what the faster of two with is held to.
    const free = Math.min(await rate(clients, owner, appendsOfARun), await rate(clients, owner, appendsOfARun));
    const pool = createPool({
      url: cluster.database.url,
      applicationName: "backup",
      max: 1,
      idleInTransactionTimeoutMs: 600_000,
    });
    const held = await pool.transaction(async (transaction) => {
      await transaction.query("set transaction isolation level repeatable read");
      await transaction.query("select count(*) from commit");
      const first = await rate(clients, owner, appendsOfARun);
      const second = await rate(clients, owner, appendsOfARun);
      const [snapshot] = await select<{ age: number }>(
        cluster.database.url,
        "select age(backend_xmin) as age from pg_stat_activity where application_name = 'backup'",
      );
      expect(snapshot?.age, "it was open all the time").toBeGreaterThan(10);
      return Math.max(first, second);
    });
    await pool.end();
    expect(held / free, `${Math.round(held)}/s held, ${Math.round(free)}/s free`).toBeGreaterThan(leastShare);
  },
  testBoundMs,
);

/** Appends a second, over one stream with many in flight. */
async function rate({ context }: Clients, owner: string, appends: number): Promise<number> {
  const call = context.appendStream({ deadlineMs: 120_000 });
  const startedAt = performance.now();
  let sent = 0;
  let answered = 0;
  const items = (howMany: number) =>
    Array.from({ length: Math.min(howMany, appends - sent) }, () => {
      sent += 1;
      return {
        append: {
          context: { owner, path: `/rate/${sent % contexts}` },
          appendId: uuidv7(),
          events: [{ type: "test/a", payload: Buffer.from(`{"n":${sent},"text":"${"x".repeat(150)}"}`) }],
        },
      };
    });
  await call.send(AppendStreamRequest.fromPartial({ items: items(atOnce) }));
  for await (const { outcomes } of call.responses) {
    for (const { outcome } of outcomes) if (outcome?.$case !== "response") throw new Error("an append was refused");
    answered += outcomes.length;
    if (answered >= appends) break;
    const next = items(outcomes.length);
    if (next.length > 0) await call.send(AppendStreamRequest.fromPartial({ items: next }));
  }
  return appends / ((performance.now() - startedAt) / 1_000);
}
