/** What a context was at each offset, against what its commits said it was when they were made. */
import { itx } from "iterate/events";
import { useTestDatabase } from "@iterate-platform/testing";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CoreState } from "../core/contract.js";
import { coreVersion, initialCore } from "../core/fold.js";
import { address, migrateLog, startEngine, type EventFields, type TestEngine } from "../log/engine.fixture.js";
import { PostgresSnapshotStore } from "../log/postgres/postgres-snapshot-store.js";
import { PooledSession } from "../log/postgres/sql-session.js";
import { write } from "../log/sql-log.fixture.js";
import { PastCores, type FoldSteps } from "./past-cores.js";

const database = useTestDatabase();
let engine: TestEngine;
/** States by path and the offset of the commit that made them. */
const made = new Map<string, Map<number, CoreState>>();

beforeAll(async () => {
  await migrateLog(database.url);
  engine = startEngine({
    url: database.url,
    onCommit: ({ commits }) => {
      for (const { head, lastOffset } of commits) {
        const states = made.get(head.address.path) ?? new Map<number, CoreState>();
        made.set(head.address.path, states.set(lastOffset, head.core));
      }
    },
  });
});
afterAll(() => engine?.close());

function past(steps?: FoldSteps, reducerVersion = coreVersion): PastCores {
  const snapshots = new PostgresSnapshotStore(new PooledSession(engine.pool));
  return new PastCores({ store: engine.store, snapshots, reducerVersion, ...(steps === undefined ? {} : { steps }) });
}

async function snapshotsOf(contextId: number): Promise<number[]> {
  const { rows } = await engine.pool.query<{ as_of: string }>(
    "select as_of from core_snapshot where context_id = $1 order by as_of",
    [contextId],
  );
  return rows.map(({ as_of }) => Number(as_of));
}

const names = fc.constantFrom("a", "b", "c");
const controls: fc.Arbitrary<EventFields> = fc.oneof(
  fc.constant({ type: itx.paused.type, payload: { reason: "full" } }),
  fc.constant({ type: itx.resumed.type, payload: {} }),
  fc.constant({ type: "example.com/happened", payload: {} }),
  names.map((name) => ({
    type: itx.subscriptionConfigured.type,
    payload: { name, target: ["itx", ["processor", `facet:${name}`]], consumes: ["example.com/happened"] },
  })),
  names.map((name) => ({ type: itx.subscriptionConfigured.type, payload: { name, target: null } })),
  names.map((name) => ({ type: itx.subscriptionDeliveryResumed.type, payload: { name } })),
  fc.constant({ type: itx.runRequested.type, payload: { code: "1", limitKey: "a" } }),
  fc
    .nat(6)
    .map((requestOffset) => ({ type: itx.runSettled.type, payload: { requestOffset, settlement: { outcome: "succeeded" } } })),
  names.map((key) => ({
    type: itx.scheduleSet.type,
    payload: { key, when: { everyMs: 60_000 }, events: [{ type: "example.com/due" }] },
  })),
  names.map((key) => ({ type: itx.scheduleCancelled.type, payload: { key } })),
  fc
    .tuple(names, fc.constantFrom("itx.builtins.kv", "itx.builtins", null))
    .map(([name, target]) => ({ type: itx.rewriteRuleConfigured.type, payload: { match: `itx.${name}`, target } })),
  fc.nat(5).map((offset) => ({ type: itx.retentionConfigured.type, payload: { keepFrom: { offset: offset + 1 } } })),
);

describe("the state of the past", () => {
  it("is at every offset what the commit there said it was, with snapshots at any distance", { timeout: 60_000 }, async () => {
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(controls, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 12 }),
        async (batches) => {
          runs += 1;
          const path = `/random/${runs}`;
          // What is refused, while it is paused or for want of a row, leaves nothing.
          for (const batch of batches) await engine.append(path, batch).catch(() => undefined);
          const head = engine.cache.peek(address(path));
          if (head === undefined) return;
          const states = made.get(path)!;
          const cores = past({ page: 2, snapshotEvery: 4 }, 1_000 + (runs % 2));
          for (const _ of ["without snapshots", "with them"]) {
            for (const [offset, core] of states) expect(await cores.at(head.contextId, offset)).toEqual(core);
            expect(await cores.at(head.contextId, 0)).toEqual(initialCore);
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it("costs at most the control events since a snapshot, which are left every 10,000", { timeout: 60_000 }, async () => {
    const where = address("/long");
    let contextId = 0;
    for (let n = 0; n < 25; n += 1) {
      const events = Array.from({ length: 1_000 }, (_, at) => ({
        type: itx.paused.type,
        payload: JSON.stringify({ reason: `${n * 1_000 + at + 1}` }),
        isControl: true,
      }));
      ({ contextId } = await write(engine.pool, where, events));
    }
    const states = await Promise.all([24_500, 12_345].map((offset) => past().at(contextId, offset)));
    expect(states.map(({ pause }) => pause)).toEqual([24_500, 12_345].map((at) => ({ reason: `${at}`, pausedAtOffset: at })));
    expect(await snapshotsOf(contextId)).toEqual([10_000, 20_000]);

    let read = 0;
    const counting = new PastCores({
      store: {
        controlEvents: async (ranges, limit) => {
          const events = await engine.store.controlEvents(ranges, limit);
          read += events.length;
          return events;
        },
      },
      snapshots: new PostgresSnapshotStore(new PooledSession(engine.pool)),
    });
    expect((await counting.at(contextId, 20_007)).pause).toMatchObject({ pausedAtOffset: 20_007 });
    expect(read).toBe(7);
    // A snapshot that is lost is made again.
    await engine.pool.query("delete from core_snapshot where context_id = $1 and as_of = 20000", [contextId]);
    await past().at(contextId, 25_000);
    expect(await snapshotsOf(contextId)).toEqual([10_000, 20_000]);
  });

  it("ends with its caller, and keeps what it has folded by then", async () => {
    const where = address("/ended");
    const events = Array.from({ length: 10 }, () => ({ type: itx.paused.type, payload: "{}", isControl: true }));
    const { contextId } = await write(engine.pool, where, events);
    const ending = new AbortController();
    let pages = 0;
    const cores = new PastCores({
      store: {
        controlEvents: async (ranges, limit) => {
          pages += 1;
          if (pages === 3) ending.abort(new Error("gone"));
          return engine.store.controlEvents(ranges, limit);
        },
      },
      snapshots: new PostgresSnapshotStore(new PooledSession(engine.pool)),
      steps: { page: 2, snapshotEvery: 4 },
    });
    await expect(cores.at(contextId, 10, ending.signal)).rejects.toThrow("gone");
    expect(pages).toBe(3);
    expect(await snapshotsOf(contextId)).toEqual([4]);
  });
});
