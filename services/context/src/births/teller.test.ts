/** Parents and the births of their children: told once, whoever tells, whoever dies. */
import { itx } from "iterate/events";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HeadConfirmer } from "../log/confirm.js";
import { address, migrateLog, owner, readLog, startEngine, type TestEngine } from "../log/engine.fixture.js";
import { PostgresBirthStore } from "../log/postgres/postgres-birth-store.js";
import { PooledSession } from "../log/postgres/sql-session.js";
import { maxNewborn, Newborn } from "./newborn.js";
import { ChildTeller, parentOf, type TellerParts } from "./teller.js";

const database = useTestDatabase();
let engine: TestEngine;
let newborn: Newborn;
beforeAll(async () => {
  await migrateLog(database.url);
  newborn = new Newborn();
  engine = startEngine({ url: database.url, onCommit: (batch) => newborn.observe(batch) });
});
afterAll(() => engine?.close());

const failures: unknown[] = [];
function teller(parts: Partial<TellerParts> = {}): ChildTeller {
  return new ChildTeller({
    store: new PostgresBirthStore(new PooledSession(engine.pool)),
    newborn,
    heads: new HeadConfirmer(engine.cache),
    appender: engine.appender,
    newChain: (kind) => `2030-01-01T00:00:00.000Z with ${kind} ~1`,
    failpoint: () => undefined,
    onFailure: (_parent, error) => failures.push(error),
    sweepAgeMs: 0,
    ...parts,
  });
}
const toldOf = async (path: string) =>
  (await readLog(engine.pool, path))
    .filter(({ type }) => type === itx.childCreated.type)
    .map(({ payload }) => JSON.parse(payload!) as unknown);
const untold = async () =>
  (await engine.pool.query<{ path: string }>("select path from context where not is_told order by path")).rows.map(
    ({ path }) => path,
  );
async function sweepAll(by = teller()): Promise<void> {
  while (await by.sweep());
}

describe("a birth", () => {
  it("is told to the parent alone", async () => {
    await engine.append("/", [{}]);
    await engine.append("/a", [{}]);
    await engine.append("/a/b", [{}]);
    await engine.append("/a/b", [{}]);
    await engine.append("/a/c/d", [{}]);
    await teller().tellWaiting();
    expect(await toldOf("/")).toEqual([{ childPath: "/a" }]);
    expect(await toldOf("/a")).toEqual([{ childPath: "/a/b" }]);
    // Nobody is born to be told.
    expect(await readLog(engine.pool, "/a/c")).toEqual([]);
    expect(await untold()).toEqual([]);
    expect(newborn.count).toBe(0);
  });

  it("is found by the sweep when the process that gave it is gone", async () => {
    await engine.append("/lost", [{}]);
    for (let n = 0; n < 1_203; n += 1) void engine.append(`/lost/${n}`, [{}]);
    await engine.writer.settled();
    newborn.take(maxNewborn);
    await sweepAll();
    expect((await toldOf("/lost")).length).toBe(1_203);
    expect(await toldOf("/")).toContainEqual({ childPath: "/lost" });
    expect(await untold()).toEqual([]);
  });

  it.each(["children.before-tell", "children.told"])("is told once although its teller dies at %s", async (point) => {
    const path = `/dies/${point}`;
    await engine.append(path, [{}]);
    await engine.append(`${path}/child`, [{}]);
    const failpoint = (name: string) => {
      if (name === point) throw new Error("killed");
    };
    await expect(teller({ failpoint }).tellWaiting()).rejects.toThrow("killed");
    expect(await untold()).toContain(`${path}/child`);
    await Promise.all([sweepAll(), sweepAll()]);
    expect(await toldOf(path)).toEqual([{ childPath: `${path}/child` }]);
  });

  it("is told to a paused parent", async () => {
    await engine.append("/paused", [{ type: itx.paused.type, payload: {} }]);
    await engine.append("/paused/child", [{}]);
    await teller().tellWaiting();
    expect(await toldOf("/paused")).toEqual([{ childPath: "/paused/child" }]);
  });

  it("that cannot be told waits, and keeps no other from its turn", async () => {
    await engine.append("/sick", [{}]);
    await engine.append("/sick/1", [{}]);
    await engine.append("/sound", [{}]);
    await engine.append("/sound/1", [{}]);
    const { appender } = engine;
    const away: TellerParts["appender"] = {
      append: (command) => (command.address.path === "/sick" ? Promise.reject(new Error("away")) : appender.append(command)),
    };
    await teller({ appender: away }).tellWaiting();
    expect(failures).toHaveLength(1);
    expect(await toldOf("/sound")).toEqual([{ childPath: "/sound/1" }]);
    expect(await untold()).toEqual(["/sick/1"]);
    await sweepAll();
    expect(await toldOf("/sick")).toEqual([{ childPath: "/sick/1" }]);
  });

  it("in a project that is being imported is nobody's to hear of", async () => {
    const imported = { address: { owner: `imp_${"0".repeat(32)}`, path: "/x" } };
    await engine.append("/x", [{}], imported).catch(() => undefined);
    expect(newborn.take(10).filter(({ address }) => address.owner !== owner)).toEqual([]);
  });
});

describe("a parent", () => {
  it.each([
    ["/a", "/"],
    ["/a/b", "/a"],
    ["/a/b/c", "/a/b"],
  ])("of %s is %s", (path, parent) => {
    expect(parentOf(address(path))).toEqual(address(parent));
  });
});
