import { migrate } from "@iterate-platform/service/migrations";
import { partitionOf } from "@iterate-platform/service/ids";
import { createPool, type Pool } from "@iterate-platform/service/postgres";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ContextAddress } from "../log/contract.js";
import { write } from "../log/sql-log.fixture.js";
import { commitsAfter } from "../log/postgres/feed.sql.js";
import { PostgresLogStore } from "../log/postgres/postgres-log-store.js";
import { rowsReadBy } from "../log/postgres/query-plan.fixture.js";
import { listCommits, type FeedPage } from "./feed.js";
import { encodePosition } from "./feed-position.js";

const database = useTestDatabase({ isAlone: true });
let pool: Pool;
let store: PostgresLogStore;
beforeAll(async () => {
  await migrate({ url: database.url, dir: new URL("../../migrations", import.meta.url).pathname });
  pool = createPool({ url: database.url, applicationName: "feed.test", max: 4 });
  store = new PostgresLogStore(pool);
});
afterAll(() => pool.end());

/** Contexts of one owner that lie in one partition. */
function neighbours(owner: string, count: number): ContextAddress[] {
  const partition = partitionOf(owner, "/0");
  const found: ContextAddress[] = [];
  for (let n = 0; found.length < count; n += 1) if (partitionOf(owner, `/${n}`) === partition) found.push({ owner, path: `/${n}` });
  return found;
}

const event = [{ type: "test/a" }];
const names = ({ commits }: FeedPage): string[] => commits.map(({ context, commitNo }) => `${context!.path}@${commitNo}`);
const partitionIn = ({ owner, path }: ContextAddress): number => partitionOf(owner, path);

test("answers the commits of a partition once each, page by page", async () => {
  const [a, b] = neighbours("prj_pages", 2) as [ContextAddress, ContextAddress];
  for (const address of [a, b, a, a, b]) await write(pool, address, event);
  const seen: string[] = [];
  let after = "";
  for (let pages = 1; ; pages += 1) {
    const page = await listCommits(store, partitionIn(a), after, 2);
    seen.push(...names(page));
    after = page.next;
    if (!page.isAtHead) continue;
    expect(pages).toBe(3);
    break;
  }
  expect(seen).toEqual([`${a.path}@1`, `${b.path}@1`, `${a.path}@2`, `${a.path}@3`, `${b.path}@2`]);
  expect(await listCommits(store, partitionIn(a), after, 2)).toEqual({ commits: [], next: after, isAtHead: true });
  await write(pool, b, event);
  const [commit] = (await listCommits(store, partitionIn(a), after, 2)).commits;
  expect(commit).toMatchObject({
    context: b,
    partition: partitionIn(a),
    commitNo: 3n,
    firstOffset: 3n,
    lastOffset: 3n,
    events: [],
    inlined: false,
  });
});

test("never skips a commit of a transaction that began earlier and ends later", async () => {
  const [late, early, after] = neighbours("prj_late", 3) as [ContextAddress, ContextAddress, ContextAddress];
  const partition = partitionIn(late);
  await write(pool, late, event);
  const start = await listCommits(store, partition, "", 100);
  expect(names(start)).toEqual([`${late.path}@1`]);
  const open = await pool.connect();
  await open.query("begin");
  await open.query(
    `insert into commit (context_id, commit_no, first_offset, last_offset, reserved_through, last_control, runner_epoch, generation, writer, partition)
     select context_id, 2, 2, 2, 2, 0, 0, 1, 1, $2 from context where path = $1 and owner = 'prj_late'`,
    [late.path, partition],
  );
  await write(pool, early, event);
  // The later commit is visible, and is held back: its turn comes after that of the open transaction.
  const held = await listCommits(store, partition, start.next, 100);
  expect([names(held), held.isAtHead]).toEqual([[], false]);
  await open.query("commit");
  open.release();
  const all = await listCommits(store, partition, held.next, 100);
  expect([names(all), all.isAtHead]).toEqual([[`${late.path}@2`, `${early.path}@1`], true]);
  await write(pool, after, event);
  expect(names(await listCommits(store, partition, all.next, 100))).toEqual([`${after.path}@1`]);
});

test("reads again from the start after a restore of the database, and only then", async () => {
  const [address] = neighbours("prj_restored", 1) as [ContextAddress];
  const partition = partitionIn(address);
  await write(pool, address, event);
  const before = await listCommits(store, partition, "", 100);
  const lost = encodePosition(partition, 1, { xid: "18446744073709551615", contextId: 1, commitNo: 1 });
  expect(names(await listCommits(store, partition, lost, 100))).toEqual([]);
  await pool.query("update shard set generation = 2");
  try {
    for (const token of [before.next, lost])
      expect(names(await listCommits(store, partition, token, 100))).toEqual([`${address.path}@1`]);
    const after = (await listCommits(store, partition, before.next, 100)).next;
    expect(names(await listCommits(store, partition, after, 100))).toEqual([]);
  } finally {
    await pool.query("update shard set generation = 1");
  }
});

test("refuses what is no position of the partition", async () => {
  const own = encodePosition(3, 1, { xid: "1", contextId: 1, commitNo: 1 });
  const refusals = [
    "x",
    "é",
    own.slice(0, 4),
    encodePosition(4, 1, { xid: "1", contextId: 1, commitNo: 1 }),
    encodePosition(3, 2, { xid: "1", contextId: 1, commitNo: 1 }),
    encodePosition(3, 1, { xid: "18446744073709551616", contextId: 1, commitNo: 1 }),
  ];
  for (const token of refusals)
    await expect(listCommits(store, 3, token, 10), token).rejects.toMatchObject({ code: "INVALID_INPUT" });
  await expect(listCommits(store, 3, own, 10)).resolves.toMatchObject({ isAtHead: true });
});

test("reads by its index what it answers, in a long history", async () => {
  await pool.query(
    `insert into context (context_id, owner, path) select (9::bigint << 40) | n, 'prj_long', '/' || n from generate_series(1, 200) n`,
  );
  await pool.query(
    `insert into commit (context_id, commit_no, first_offset, last_offset, reserved_through, last_control, runner_epoch, generation, writer, partition, xid)
     select (9::bigint << 40) | n, no, no, no, no, 1, 0, 1, 1, 9, (no + 2)::text::xid8 from generate_series(1, 200) n, generate_series(1, 300) no`,
  );
  await pool.query("analyze commit, context");
  const page = await listCommits(store, 9, encodePosition(9, 1, { xid: "152", contextId: 9 * 2 ** 40 + 100, commitNo: 150 }), 500);
  expect(page.commits).toHaveLength(500);
  expect(names(page).slice(0, 2)).toEqual(["/101@150", "/102@150"]);
  expect((await rowsReadBy(pool, commitsAfter, ["9", "'152'", String(9 * 2 ** 40 + 100), "150", "500"])).total).toBeLessThanOrEqual(
    3_000,
  );
});
