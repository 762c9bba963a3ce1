import { useTestDatabase } from "@iterate-platform/testing";
import { itx } from "iterate/events";
import { afterAll, beforeAll, expect, it } from "vitest";
import { address, migrateLog, startEngine, type TestEngine } from "./engine.fixture.js";
import type { LogStore } from "./log-store.js";
import { statementCounts } from "./postgres/sql-session.js";

const database = useTestDatabase();
let writer: TestEngine;
let reader: TestEngine;
beforeAll(async () => {
  await migrateLog(database.url);
  writer = startEngine({ url: database.url });
  reader = startEngine({ url: database.url, maxContexts: 3 });
});
afterAll(() => Promise.all([writer.close(), reader.close()]));

const row = (name: string) => ({ type: itx.subscriptionConfigured.type, payload: { name, target: ["itx", "a"] } });

it("follows another process by one statement, and by one more when control events are to be folded", async () => {
  await writer.append("/follow", [row("a")]);
  const [head] = await reader.cache.load([address("/follow")]);
  await writer.append("/follow", [{}]);
  statementCounts.clear();
  expect(await reader.cache.refresh([head!.contextId])).toMatchObject([{ commitNo: 2, lastOffset: 3, lastControl: 1 }]);
  expect(Object.fromEntries(statementCounts)).toEqual({ last_commits: 1 });
  await writer.append("/follow", [row("b"), {}]);
  await writer.append("/follow", [{ type: itx.subscriptionConfigured.type, payload: { name: "a", target: null } }]);
  statementCounts.clear();
  const [moved] = await reader.cache.refresh([head!.contextId]);
  expect(Object.fromEntries(statementCounts)).toEqual({ last_commits: 1, control_events: 1 });
  expect(moved).toEqual(writer.cache.peek(address("/follow")));
  expect(Object.keys(moved!.core.subscriptions)).toEqual(["b"]);
});

it("folds more control events than fit one page", async () => {
  for (let n = 0; n < 3; n += 1)
    await writer.append(
      "/pages",
      Array.from({ length: 900 }, (_, index) => row(`s${index % 50}`)),
    );
  const { contextId } = writer.cache.peek(address("/pages"))!;
  await writer.pool.query("delete from core_state where context_id = $1", [contextId]);
  statementCounts.clear();
  const [head] = await reader.cache.load([address("/pages")]);
  expect(Object.fromEntries(statementCounts)).toEqual({ load_heads: 1, control_events: 3 });
  expect(head!.core).toEqual(writer.cache.peek(address("/pages"))!.core);
});

it("never moves back, whatever order its reads come in", async () => {
  await writer.append("/forward", [{}]);
  const [old] = await reader.cache.load([address("/forward")]);
  await writer.append("/forward", [{}]);
  await reader.cache.refresh([old!.contextId]);
  reader.cache.committed(old!, old!.core);
  expect(reader.cache.peek(address("/forward"))).toMatchObject({ commitNo: 2 });
});

it("holds as many contexts as it may, keeps those in use and loads the others again", async () => {
  for (const path of ["/1", "/2", "/3", "/4", "/5"]) await writer.append(path, [{}]);
  for (const path of ["/1", "/2", "/3"]) await reader.cache.load([address(path)]);
  await reader.cache.load([address("/4")]);
  reader.cache.peek(address("/4"));
  await reader.cache.load([address("/5")]);
  expect(reader.cache.size).toBeLessThanOrEqual(3);
  expect(reader.cache.peek(address("/4"))).toBeDefined();
  expect(await reader.cache.load([address("/1")])).toMatchObject([{ lastOffset: 2 }]);
});

it("answers a context that was pushed out while its last commit was read", async () => {
  for (const path of ["/out", "/in/1", "/in/2", "/in/3", "/in/4"]) await writer.append(path, [{}]);
  const [head] = await reader.cache.load([address("/out")]);
  const pushOut = async (): Promise<void> => {
    for (const path of ["/in/1", "/in/2", "/in/3", "/in/4"]) await reader.cache.load([address(path)]);
  };
  const slow: Partial<LogStore> = {
    lastCommits: async (contextIds) => {
      const last = await reader.store.lastCommits(contextIds);
      await pushOut();
      return last;
    },
  };
  const held = reader.cache.refresh([head!.contextId], Object.assign(Object.create(reader.store) as LogStore, slow));
  expect(await held).toMatchObject([{ address: address("/out"), lastOffset: 2 }]);
  expect(reader.cache.peek(address("/out"))).toBeDefined();

  await reader.cache.load([address("/out")]);
  const both = reader.cache.load([address("/out"), address("/in/1")]);
  await pushOut();
  expect(await both).toMatchObject([{ lastOffset: 2 }, { lastOffset: 2 }]);
});

it("writes core rows that are the fold of the log, though another process wrote them in between", async () => {
  const rival = startEngine({ url: database.url });
  const pauseOf = async (): Promise<unknown> => {
    const fresh = startEngine({ url: database.url });
    const [head] = await fresh.cache.load([address("/rows")]);
    await fresh.close();
    return head!.core.pause;
  };
  await writer.append("/rows", [{}]);
  await rival.append("/rows", [{ type: itx.paused.type, payload: {} }]);
  await writer.append("/rows", [{ type: itx.resumed.type, payload: {} }]);
  await writer.append("/rows", [row("a")]);
  expect(await pauseOf()).toBeNull();
  // Nothing is known of the rows of a context that is not held.
  await rival.append("/rows", [{ type: itx.paused.type, payload: {} }]);
  rival.failpoints.on("append.before-commit", () => rival.cache.clear());
  await rival.append("/rows", [{ type: itx.resumed.type, payload: {} }, row("b")]);
  expect(await pauseOf()).toBeNull();
  await rival.close();
});

it("does not know a context that is not born", async () => {
  expect(await reader.cache.load([address("/nobody")])).toEqual([undefined]);
  expect(await reader.cache.refresh([12345])).toEqual([]);
});
