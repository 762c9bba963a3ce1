/** Runs as the log takes them: what may ask for one, what may end one, and what holds while one is open. */
import { itx } from "iterate/events";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  address,
  code,
  event,
  migrateLog,
  owner,
  person,
  readLog,
  startEngine,
  type EventFields,
  type TestEngine,
} from "./engine.fixture.js";

const database = useTestDatabase();
let engine: TestEngine;
let other: TestEngine;
beforeAll(async () => {
  await migrateLog(database.url);
  engine = startEngine({ url: database.url });
  other = startEngine({ url: database.url });
});
afterAll(() => Promise.all([engine?.close(), other?.close()]));

const requested = (fields: Record<string, unknown> = {}): EventFields => ({
  type: itx.runRequested.type,
  payload: { code: "await itx.whoami()", ...fields },
});
const settled = (requestOffset: number, settlement: unknown = { outcome: "succeeded", result: 1 }): EventFields => ({
  type: itx.runSettled.type,
  payload: { requestOffset, settlement },
});
const openRuns = async (path: string) => Object.keys((await other.cache.load([address(path)]))[0]!.core.runs.open).map(Number);

describe("a run", () => {
  it("is asked for by anyone and ended by the platform, once", async () => {
    const [receipt] = await engine.append("/once", [event(requested())], { writer: person });
    const at = receipt!.offset;
    await engine.append("/once", [event(requested())], { writer: code() });
    for (const writer of [person, code()])
      await expect(engine.append("/once", [event(settled(at))], { writer })).rejects.toMatchObject({ code: "FORBIDDEN" });
    await engine.append("/once", [settled(at)]);
    await expect(engine.append("/once", [settled(at)])).rejects.toMatchObject({ code: "OFFSET_CONFLICT" });
    expect(await openRuns("/once")).toEqual([at + 1]);
  });

  it("ends once, whichever of two processes says so", async () => {
    const [receipt] = await engine.append("/race", [requested()]);
    const ends = await Promise.allSettled([engine, other].map((each) => each.append("/race", [settled(receipt!.offset)])));
    expect(ends.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect((await readLog(engine.pool, "/race")).filter(({ type }) => type === itx.runSettled.type)).toHaveLength(1);
  });

  it("names an ancestor that was asked for in the same context, be it ended", async () => {
    const [first] = await engine.append("/kin", [requested()]);
    await engine.append("/kin", [settled(first!.offset)]);
    await engine.append("/kin", [requested({ ancestor: { requestOffset: first!.offset, kind: "restart" } })]);
    for (const requestOffset of [first!.offset + 1, 1, 99])
      await expect(engine.append("/kin", [requested({ ancestor: { requestOffset, kind: "fork" } })])).rejects.toMatchObject({
        code: "NOT_FOUND",
        data: { requestOffset },
      });
    const other = engine.append("/unborn", [requested({ ancestor: { requestOffset: 2, kind: "restart" } })]);
    await expect(other).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await readLog(engine.pool, "/unborn")).toEqual([]);
  });

  it("ends in a paused context, where none is asked for", async () => {
    const [receipt] = await engine.append("/paused", [requested(), { type: itx.paused.type, payload: {} }]);
    await expect(engine.append("/paused", [requested()])).rejects.toMatchObject({ code: "STREAM_PAUSED" });
    await engine.append("/paused", [
      { type: itx.woken.type, payload: { incarnation: 3, cause: "take-over" } },
      settled(receipt!.offset, { outcome: "failed", error: { code: "CANCELLED", message: "gone" }, failureKind: "interrupted" }),
    ]);
    expect(await openRuns("/paused")).toEqual([]);
  });

  const { codeBytes, resultBytes, deadlineMs, limitKeyBytes } = itx.runLimits;
  it.each<[string, Record<string, unknown>, boolean]>([
    ["code of its limit", { code: "é".repeat(codeBytes / 2) }, true],
    ["code over it", { code: "é".repeat(codeBytes / 2) + "x" }, false],
    ["the longest deadline", { deadlineMs }, true],
    ["a longer one", { deadlineMs: deadlineMs + 1 }, false],
    ["no time at all", { deadlineMs: 0 }, false],
    ["a key of its limit", { limitKey: "k".repeat(limitKeyBytes) }, true],
    ["a key over it", { limitKey: "k".repeat(limitKeyBytes + 1) }, false],
  ])("is held to its bounds: %s", async (_what, fields, isTaken) => {
    const append = engine.append("/bounds", [requested(fields)]);
    if (isTaken) await append;
    else await expect(append).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  it.each<[string, number, boolean]>([
    ["of its limit", resultBytes - 2, true],
    ["over it", resultBytes - 1, false],
  ])("answers a result %s", async (_what, length, isTaken) => {
    const [receipt] = await engine.append("/result", [requested()]);
    const append = engine.append("/result", [settled(receipt!.offset, { outcome: "succeeded", result: "r".repeat(length) })]);
    if (isTaken) await append;
    else await expect(append).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });
});

describe("a context that is loaded, let go and loaded again", () => {
  it("ends no run and records no incarnation by itself", async () => {
    await engine.append("/cache", [requested(), requested()]);
    const logged = await readLog(engine.pool, "/cache");
    for (let n = 0; n < 3; n += 1) {
      const fresh = startEngine({ url: database.url });
      await fresh.cache.load([address("/cache")]);
      fresh.cache.forget({ owner, path: "/cache" });
      await fresh.cache.load([address("/cache")]);
      await fresh.append("/cache/beside", [{}]);
      await fresh.close();
    }
    expect(await readLog(engine.pool, "/cache")).toEqual(logged);
  });
});
