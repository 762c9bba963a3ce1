/** Children of a context, against what is there; whatever lies below them costs nothing. */
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { address, migrateLog, startEngine, type TestEngine } from "../log/engine.fixture.js";
import { PostgresChildStore } from "../log/postgres/postgres-child-store.js";
import { PooledSession } from "../log/postgres/sql-session.js";
import { listChildren } from "./children.js";
import type { ChildStore } from "./contract.js";

const database = useTestDatabase();
let engine: TestEngine;
let store: ChildStore;
const born = [
  "/",
  "/a",
  "/a/x",
  "/a/x/1",
  "/a/x/2",
  "/a-b",
  "/a!",
  "/a0",
  "/a0/y",
  "/b/deep/only",
  "/b/deep/other",
  "/c",
  "/ü",
  "/ü/z",
  "/zz",
  "/a/y",
  "/a/😀",
];
beforeAll(async () => {
  await migrateLog(database.url);
  engine = startEngine({ url: database.url });
  store = new PostgresChildStore(new PooledSession(engine.pool));
  for (const path of born) await engine.append(path, [{}]);
  await engine.pool.query(
    "insert into context (context_id, owner, path) select 140737488355327, owner, '/unborn' from context limit 1",
  );
});
afterAll(() => engine?.close());

const expected = (parent: string): string[] =>
  born
    .filter((path) => path !== "/" && (path.slice(0, path.lastIndexOf("/")) || "/") === parent)
    .sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));

async function all(parent: string, limit: number, stores = [store]): Promise<string[]> {
  const found: string[] = [];
  for (let after = "", pages = 0; pages < 100; pages += 1) {
    const { children, next } = await listChildren(stores, address(parent), after, limit);
    expect(children.length).toBeLessThanOrEqual(limit);
    found.push(...children.map(({ path }) => path));
    if (next === "") return found;
    expect(Buffer.compare(Buffer.from(next), Buffer.from(after))).toBe(1);
    after = next;
  }
  throw new Error("the pages do not end");
}

describe("the children of a context", () => {
  it.each(["/", "/a", "/a/x", "/a0", "/b", "/b/deep", "/ü", "/c", "/nobody"])(
    "%s are those one name below, once each",
    async (parent) => {
      for (const limit of [1, 2, 3, 100]) expect(await all(parent, limit)).toEqual(expected(parent));
    },
  );

  it("are of one project, and say when they were born", async () => {
    const { children } = await listChildren([store], { owner: "prj_11111111111111111111111111", path: "/" }, "", 10);
    expect(children).toEqual([]);
    const [first] = (await listChildren([store], address("/"), "", 1)).children;
    expect(first!.createdAtUs).toBeGreaterThan(1_700_000_000_000_000);
  });

  it("of several databases are merged in order, none left out and none twice", async () => {
    const half = (which: number): ChildStore => ({
      childrenOf: async (parent, after, limit) => {
        const { children } = await store.childrenOf(parent, after, 1_000);
        const own = children.filter((_, at) => at % 2 === which);
        return { children: own.slice(0, limit), lookedThrough: own.length > limit ? own[limit - 1]!.path : null };
      },
    });
    // Which half a child is in must not depend on where the page begins.
    const whole = expected("/");
    const fixed = (which: number): ChildStore => ({
      childrenOf: async (parent, after, limit) => {
        const { children } = await half(0).childrenOf(parent, after, 1_000);
        const { children: others } = await half(1).childrenOf(parent, after, 1_000);
        const own = [...children, ...others]
          .filter(({ path }) => whole.indexOf(path) % 2 === which)
          .sort((one, other) => Buffer.compare(Buffer.from(one.path), Buffer.from(other.path)));
        return { children: own.slice(0, limit), lookedThrough: own.length > limit ? own[limit - 1]!.path : null };
      },
    });
    for (const limit of [1, 2, 3]) expect(await all("/", limit, [fixed(0), fixed(1)])).toEqual(whole);
  });

  it("cost what is answered: a subtree of a thousand is stepped over", async () => {
    for (let n = 0; n < 1_000; n += 1) void engine.append(`/c/${n}/deep`, [{}]);
    await engine.writer.settled();
    // Each step of the walk is a child or the first thing below one.
    const { children, next } = await listChildren([store], address("/"), "", 20);
    expect(next).toBe("");
    expect(children.map(({ path }) => path)).toEqual(expected("/"));
  });
});
