/**
 * A transaction that holds an old snapshot open, as a backup or a forgotten session does, and one that is late to commit: the log goes on
 * beside the one, and its feed waits for the other.
 */
import { AppendRequest, AppendStreamRequest } from "@iterate-platform/proto/iterate/context/v1/context";
import { ListCommitsRequest } from "@iterate-platform/proto/iterate/context/v1/feed";
import { newId, partitionOf, uuidv7 } from "@iterate-platform/service/ids";
import { createPool } from "@iterate-platform/service/postgres";
import { eventually } from "@iterate-platform/testing";
import { expect, test } from "vitest";
import type { Clients } from "../../services/context/test/context-process.js";
import { useCluster } from "./cluster.js";
import type { Pod } from "./pod.js";
import { count, isLong, testBoundMs } from "./scale.js";
import { select } from "./truth.js";

const cluster = useCluster({ pods: 2 });
/** As many as are in flight: nearly every append is a commit of its own, and a row updated by each would show. */
const contexts = 256;
const atOnce = 256;
const leastShare = 0.6;

test(
  "beside a held snapshot an append updates and removes no row, and the feed tells of it at once",
  async () => {
    const { clients } = cluster.pod(0);
    const owner = newId("prj");
    const appends = count(4_000);
    // Births count numbers up, once.
    await rate(clients, owner, 2 * contexts);
    const before = await changes();
    await holdingSnapshot(async () => {
      await rate(clients, owner, appends);
      expect(await changes()).toEqual(before);
      const partition = partitionOf(owner, "/rate/0");
      const there = await select<{ path: string; commits: number }>(
        cluster.database.url,
        "select path, max(commit_no)::int as commits from commit join context using (context_id) where owner = $1 and partition = $2 group by path",
        owner,
        partition,
      );
      await eventually(async () => {
        const { told } = await feedOf(cluster.pod(1), owner, partition);
        return there.every(({ path, commits }) => told.get(path)?.length === commits);
      });
    });
  },
  testBoundMs,
);

test("the feed tells of a commit that one of a later transaction overtook", async () => {
  const owner = newId("prj");
  const [late, early] = neighbours(owner);
  const partition = partitionOf(owner, late);
  const append = ({ clients }: Pod, path: string) =>
    clients.context.append(
      AppendRequest.fromPartial({
        context: { owner, path },
        appendId: uuidv7(),
        events: [{ type: "test/a", payload: Buffer.from("{}") }],
      }),
    );
  for (const path of [late, early]) await append(cluster.pod(0), path);
  const pool = createPool({ url: cluster.database.url, applicationName: "rival", max: 1 });
  const undone = new Error("undone");
  let landing: Promise<unknown> | undefined;
  let position = "";
  const rival = pool.transaction(async (transaction) => {
    await transaction.query(
      `insert into commit (context_id, commit_no, first_offset, last_offset, reserved_through, last_control, runner_epoch, generation, writer, partition)
       select context_id, commit_no + 1, last_offset + 1, last_offset, reserved_through, last_control, runner_epoch, generation, 0, partition
       from commit join context using (context_id) where owner = $1 and path = $2 order by commit_no desc limit 1`,
      [owner, late],
    );
    // It has a transaction id when it waits for the end of this one, which has its number.
    landing = append(cluster.pod(0), late);
    landing.catch(() => undefined);
    await eventually(async () => {
      const waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
      return (await select(cluster.database.url, waiting)).length > 0;
    });
    await append(cluster.pod(1), early);
    position = (await feedOf(cluster.pod(1), owner, partition)).position;
    throw undone;
  });
  await expect(rival).rejects.toBe(undone);
  await pool.end();
  await landing;
  const told = await eventually(async () => {
    const page = await feedOf(cluster.pod(1), owner, partition, position);
    return page.told.size > 0 && page.told;
  });
  expect(told).toEqual(new Map([late, early].map((path) => [path, [2]])));
});

test.runIf(isLong)(
  `appends go at ${leastShare * 100} % of their rate or more beside a held snapshot`,
  async () => {
    const { clients } = cluster.pod(0);
    const owner = newId("prj");
    const appends = 100_000;
    await rate(clients, owner, appends / 4);
    // The machine's own moods are in every run: the slower of two without is what the faster of two with is held to.
    const free = Math.min(await rate(clients, owner, appends), await rate(clients, owner, appends));
    const held = await holdingSnapshot(async () =>
      Math.max(await rate(clients, owner, appends), await rate(clients, owner, appends)),
    );
    expect(held / free, `${Math.round(held)}/s held, ${Math.round(free)}/s free`).toBeGreaterThan(leastShare);
  },
  testBoundMs,
);

/** Runs `work` while a transaction has looked at the log and does not end. */
async function holdingSnapshot<Result>(work: () => Promise<Result>): Promise<Result> {
  const { url } = cluster.database;
  const pool = createPool({ url, applicationName: "backup", max: 1, idleInTransactionTimeoutMs: 600_000 });
  try {
    return await pool.transaction(async (transaction) => {
      await transaction.query("set transaction isolation level repeatable read");
      await transaction.query("select count(*) from commit");
      const result = await work();
      const [snapshot] = await select<{ age: number }>(
        url,
        "select age(backend_xmin) as age from pg_stat_activity where application_name = 'backup' and datname = current_database()",
      );
      expect(snapshot?.age, "it was open all the time").toBeGreaterThan(10);
      return result;
    });
  } finally {
    await pool.end();
  }
}

/** Rows updated and removed in the whole database, once all of its sessions have told of the events that are there. */
async function changes(): Promise<{ readonly updated: number; readonly removed: number }> {
  return await eventually(
    async () => {
      const [seen] = await select<{ updated: number; removed: number; isAll: boolean }>(
        cluster.database.url,
        `select sum(n_tup_upd)::int as updated, sum(n_tup_del)::int as removed,
           sum(n_tup_ins) filter (where relname like 'event\\_%' and relname <> 'event_type') = (select count(*) from event) as "isAll"
         from pg_stat_user_tables`,
      );
      return seen!.isAll && { updated: seen!.updated, removed: seen!.removed };
    },
    { timeoutMs: 30_000, intervalMs: 200 },
  );
}

/** What the feed tells of a project after `position`: commit numbers by path, in the order told. */
async function feedOf({ runner }: Pod, owner: string, partition: number, position = "") {
  const told = new Map<string, number[]>();
  const limit = 1_000;
  for (let after = position; ;) {
    const { commits, next } = await runner.feed.listCommits(ListCommitsRequest.fromPartial({ partition, after, limit }));
    for (const { context, commitNo } of commits)
      if (context?.owner === owner) told.set(context.path, [...(told.get(context.path) ?? []), Number(commitNo)]);
    after = next;
    if (commits.length < limit) return { told, position: after };
  }
}

/** Two contexts of one partition. */
function neighbours(owner: string): readonly [string, string] {
  const partition = partitionOf(owner, "/late");
  for (let n = 0; ; n += 1) if (partitionOf(owner, `/early/${n}`) === partition) return ["/late", `/early/${n}`];
}

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
