/**
 * Two versions of the reducers that serve one context in turn: each writes rows of its own and folds forward from them, so neither is ever
 * wrong, and after a rollback the former one goes on from where it was.
 */
import { eventCatalog, itx } from "iterate/events";
import { useTestDatabase } from "@iterate-platform/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { storedControlEvent } from "../core/control-event.js";
import type { CoreState } from "../core/contract.js";
import { foldCore, initialCore } from "../core/fold.js";
import { Vocabulary } from "../core/vocabulary.js";
import { HeadConfirmer } from "./confirm.js";
import { address, migrateLog, startEngine, type EventFields, type TestEngine } from "./engine.fixture.js";

const database = useTestDatabase();
const path = "/shared";

/** The older release does not know retention: it neither folds nor judges it. */
const older = new Vocabulary({ catalog: new Map([...eventCatalog].filter(([type]) => type !== itx.retentionConfigured.type)) });
const newer = new Vocabulary();
const olderVersion = 901;
const newerVersion = 902;

const engines: TestEngine[] = [];
function start(vocabulary: Vocabulary, reducerVersion: number): TestEngine {
  const engine = startEngine({ url: database.url, vocabulary, reducerVersion });
  engines.push(engine);
  return engine;
}
let before: TestEngine;
let after: TestEngine;
beforeAll(async () => {
  await migrateLog(database.url);
  before = start(older, olderVersion);
  after = start(newer, newerVersion);
});
afterAll(() => Promise.all(engines.map((engine) => engine.close())));

const paused = (n: number): EventFields => ({ type: itx.paused.type, payload: { reason: `${n}` } });
const keeping = (n: number): EventFields => ({ type: itx.retentionConfigured.type, payload: { keepFrom: { offset: n } } });
const resumed: EventFields = { type: itx.resumed.type, payload: {} };

/** The whole log, folded as a release with this vocabulary does. */
async function replay(vocabulary: Vocabulary): Promise<CoreState> {
  const [head] = await before.cache.load([address(path)]);
  const events = await before.store.controlEvents(
    [{ contextId: head!.contextId, after: 0, through: Number.MAX_SAFE_INTEGER }],
    10_000,
  );
  return events
    .flatMap((stored) => storedControlEvent(vocabulary, stored) ?? [])
    .reduce((core, event) => foldCore(core, event), initialCore);
}

async function confirmed(engine: TestEngine): Promise<CoreState> {
  return (await new HeadConfirmer(engine.cache).confirm(address(path)))!.core;
}

async function rowsOf(version: number): Promise<Map<string, number>> {
  const { rows } = await before.pool.query<{ concern: string; as_of: string }>(
    "select concern, as_of from core_state where reducer_version = $1 and context_id = (select context_id from context where path = $2)",
    [version, path],
  );
  return new Map(rows.map(({ concern, as_of }) => [concern, Number(as_of)]));
}

test("two versions alternate commits and both stay right, and a rollback finds its rows", async () => {
  for (let n = 1; n <= 12; n += 1) {
    await before.append(path, [paused(n), resumed, ...(n % 3 === 0 ? [paused(n)] : [])]);
    await after.append(path, [resumed, keeping(n)]);
    expect(await confirmed(before)).toEqual(await replay(older));
    expect(await confirmed(after)).toEqual(await replay(newer));
    expect((await confirmed(before)).retention).toBeNull();
    expect((await confirmed(after)).retention?.keepFrom).toEqual({ offset: n });
  }
  // The newer release is rolled back: the older one goes on, and a process of it that starts now folds from its own rows.
  const asOf = Math.max(...(await rowsOf(olderVersion)).values());
  await after.append(path, [keeping(99)]);
  const rolledBack = start(older, olderVersion);
  const asked: number[] = [];
  const controlEvents = rolledBack.store.controlEvents.bind(rolledBack.store);
  rolledBack.store.controlEvents = async (ranges, limit) => {
    asked.push(...ranges.map((range) => range.after));
    return controlEvents(ranges, limit);
  };
  expect(await confirmed(rolledBack)).toEqual(await replay(older));
  expect(asked).toEqual([asOf]);
  await rolledBack.append(path, [paused(100)]);
  expect((await rowsOf(olderVersion)).get("pause")).toBeGreaterThan(asOf);
  // And back again.
  expect((await rowsOf(newerVersion)).has("retention")).toBe(true);
  const again = start(newer, newerVersion);
  expect(await confirmed(again)).toEqual(await replay(newer));
});
