import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { migrateLog, readLog, startEngine, type TestEngine } from "./engine.fixture.js";

const database = useTestDatabase();
let engine: TestEngine;
beforeAll(async () => {
  await migrateLog(database.url);
  engine = startEngine({ url: database.url });
});
afterAll(() => engine.close());

describe("an append", () => {
  it("gives birth to its context and lands whole", async () => {
    const receipts = await engine.append("/born", [{ payload: { a: 1 } }, { payload: 2 }]);
    expect(receipts.map(({ offset }) => offset)).toEqual([2, 3]);
    expect((await readLog(engine.pool, "/born")).map(({ offset, type }) => [offset, type])).toEqual([
      [1, "events.iterate.com/itx/created"],
      [2, "example.com/happened"],
      [3, "example.com/happened"],
    ]);
  });
});
