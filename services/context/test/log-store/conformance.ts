/**
 * What every implementation of `LogStore` promises, as cases without a framework: a test file runs them against one
 * implementation, and a program runs them against sources with a planted bug.
 */
import assert from "node:assert/strict";
import { AlreadyStored } from "../../src/log/already-stored.js";
import type { PolicyGuard } from "../../src/log/contract.js";
import { smallBodyBytes, type CommitToWrite, type StoredEvent } from "../../src/log/log-store.js";
import { digestOf, newAppendId, openTransaction, rejectsWith, Scene, type StoreUnderTest } from "./store-under-test.js";

export interface ConformanceCase {
  readonly name: string;
  readonly run: (scene: Scene, subject: StoreUnderTest) => Promise<void>;
}

const cases: ConformanceCase[] = [];
const promise = (name: string, run: ConformanceCase["run"]): void => void cases.push({ name, run });

export const conformanceCases: readonly ConformanceCase[] = cases;

/** Runs one case on contexts of its own. */
export async function runCase({ name, run }: ConformanceCase, subject: StoreUnderTest): Promise<void> {
  await run(await Scene.make(subject.store, name.replace(/[^a-z]+/g, "-").slice(0, 40)), subject);
}

promise("answers what was committed, wherever it is asked for", async (scene) => {
  const { store } = scene;
  const address = scene.address();
  const [contextId] = (await scene.contexts(1, [address])) as [number];
  const appendId = newAppendId();
  const controlPayload = JSON.stringify({ reason: "é" });
  await scene.withLanes(1, async (lane) => {
    const first = scene.commit(contextId, {
      commitNo: 1,
      events: [
        { appendId, payload: '{"n":1}', metadata: '{"m":1}', key: "K" },
        { type: "test/control", isControl: true, payload: controlPayload },
        { payload: null },
      ],
      runnerEpoch: 3,
      core: [{ concern: "pause", asOf: 3, state: '{"a":1}' }],
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    });
    const answer = await lane.commit(scene.group(first));
    assert.deepEqual([...answer.landed], [contextId]);
    assert.equal(answer.taken.size, 0);

    const last = {
      contextId,
      commitNo: 1,
      lastOffset: 3,
      reservedThrough: 3,
      lastControl: 1,
      runnerEpoch: 3,
      generation: scene.generation,
    };
    for (const queries of [store, lane]) {
      assert.deepEqual(await queries.lastCommits([contextId]), [last]);
      for (const [head] of [await queries.loadHeads([address], 1), await queries.loadHeadsById([contextId], 1)]) {
        assert.deepEqual(
          { ...head, createdAtUs: 0 },
          { address, contextId, createdAtUs: 0, last, controlThrough: 3, core: [{ concern: "pause", asOf: 3, state: '{"a":1}' }] },
        );
      }
      assert.deepEqual(await queries.takenKeys(contextId, ["K", "L"]), [
        {
          contextId,
          key: "K",
          offset: 1,
          createdAtUs: answer.atUs,
          digest: digestOf('{"n":1}'),
          source: first.commit.rows[0]!.event.source,
        },
      ]);
      assert.deepEqual(
        await queries.committedAppends([
          { contextId, appendId },
          { contextId, appendId: newAppendId() },
        ]),
        [{ contextId, appendId, offset: 1, createdAtUs: answer.atUs }],
      );
      assert.deepEqual(await queries.controlEvents([{ contextId, after: 0, through: 3 }], 10), [
        { contextId, offset: 2, type: "test/control", formatVersion: 1, payload: controlPayload },
      ]);
    }
    const events = await store.eventsAfter(contextId, 0, 10);
    assert.deepEqual(
      events.map(({ offset, type, payload, metadata, idempotencyKey, bodyBytes, createdAtUs }) => [
        offset,
        type,
        payload,
        metadata,
        idempotencyKey,
        bodyBytes,
        createdAtUs,
      ]),
      [
        [1, scene.typeNumber("test/a"), '{"n":1}', '{"m":1}', "K", 14, answer.atUs],
        [2, scene.typeNumber("test/control"), controlPayload, null, null, Buffer.byteLength(controlPayload), answer.atUs],
        [3, scene.typeNumber("test/a"), null, null, null, 0, answer.atUs],
      ],
    );
    assert.deepEqual(
      await store.typeNames([scene.typeNumber("test/control")]),
      new Map([[scene.typeNumber("test/control"), "test/control"]]),
    );
    const [bodies, beyond] = await store.storedBodies([
      { contextId, firstOffset: 1, count: 2 },
      { contextId, firstOffset: 4, count: 2 },
    ]);
    assert.deepEqual(
      bodies!.map(({ offset, appendId, type, idempotencyKey }) => [offset, appendId, type, idempotencyKey]),
      [
        [1, appendId, "test/a", "K"],
        [2, null, "test/control", null],
      ],
    );
    assert.deepEqual(beyond, []);
  });
});

promise("gives a commit number to one of those that want it, and leaves no trace of the others", async (scene) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  await scene.withLanes(4, async (...lanes) => {
    for (let commitNo = 1; commitNo <= 10; commitNo += 1) {
      const landed = await Promise.all(lanes.map((lane) => scene.land(lane, [contextId], commitNo)));
      assert.equal(landed.flat().length, 1, `commit ${commitNo}`);
    }
  });
  const events = await scene.store.eventsAfter(contextId, 0, 100);
  assert.deepEqual(
    events.map(({ offset }) => offset),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  );
});

promise("lands for the contexts of a group that are free, whole, and for no other", async (scene) => {
  const [one, two, three] = (await scene.contexts(3)) as [number, number, number];
  await scene.withLanes(2, async (lane, rival) => {
    assert.deepEqual(await scene.land(lane, [one, two, three], 1), [one, two, three]);
    assert.deepEqual(await scene.land(rival, [two], 2), [two]);
    assert.deepEqual(await scene.land(lane, [three, two, one], 2), [one, three]);
  });
  for (const contextId of [one, two, three]) assert.equal((await scene.store.eventsAfter(contextId, 0, 10)).length, 2);
});

promise(
  "takes the contexts of a group in the order of their ids, so that two groups never wait for each other",
  async (scene, subject) => {
    const [one, two, three] = (await scene.contexts(3)) as [number, number, number];
    await scene.withLanes(4, async (holder, group, rival, other) => {
      await scene.land(group, [one, two, three], 1);
      const held = openTransaction(holder, () => holder.claimNextCommit(two));
      await held.begun;
      const landed = scene.land(group, [three, two, one], 2);
      await subject.untilBlocked(1);
      // It waits for the second: the first is its own already, the third is nobody's.
      const waits = scene.land(rival, [one], 2);
      await subject.untilBlocked(2);
      assert.deepEqual(await scene.land(other, [three], 2), [three]);
      await held.end(false);
      assert.deepEqual(await landed, [one, two]);
      assert.deepEqual(await waits, []);
    });
  },
);

promise("lets overlapping groups pass, whatever order they are given in", async (scene) => {
  const contextIds = await scene.contexts(24);
  await scene.withLanes(2, async (lane, rival) => {
    for (let commitNo = 1; commitNo <= 12; commitNo += 1) {
      const [one, other] = await Promise.all([
        scene.land(lane, contextIds, commitNo),
        scene.land(rival, contextIds.toReversed(), commitNo),
      ]);
      assert.deepEqual(
        [...one, ...other].sort((a, b) => a - b),
        contextIds,
      );
    }
  });
});

promise("tells by append id what became of a commit whose answer was lost", async (scene, subject) => {
  const [contextId, other] = (await scene.contexts(2)) as [number, number];
  const [appendId, unknown] = [newAppendId(), newAppendId()];
  const lane = await subject.openLaneThatLosesAnAnswer();
  try {
    const group = scene.group(
      scene.commit(contextId, { commitNo: 1, events: [{ appendId }, {}] }),
      scene.commit(other, { commitNo: 1 }),
    );
    await rejectsWith(lane.commit(group), "UNAVAILABLE");
    lane.drop();
    // The lane's next connection comes after the lost one.
    const found = await lane.committedAppends([
      { contextId, appendId },
      { contextId, appendId: unknown },
    ]);
    assert.deepEqual(
      found.map(({ appendId, offset }) => [appendId, offset]),
      [[appendId, 1]],
    );
    const again = scene.group(
      scene.commit(contextId, { commitNo: 2, firstOffset: 3, events: [{ appendId }] }),
      scene.commit(other, { commitNo: 2 }),
    );
    await assert.rejects(lane.commit(again), AlreadyStored);
    assert.deepEqual(
      (await lane.lastCommits([contextId, other])).map(({ commitNo }) => commitNo),
      [1, 1],
    );
  } finally {
    lane.close();
  }
});

promise("keeps what a commit reserves, with events or without", async (scene) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  await scene.withLanes(1, async (lane) => {
    await lane.commit(scene.group(scene.commit(contextId, { commitNo: 1, reservedThrough: 1_024 })));
    assert.deepEqual(
      (await lane.lastCommits([contextId])).map(({ lastOffset, reservedThrough }) => [lastOffset, reservedThrough]),
      [[1, 1_024]],
    );
    await lane.commit(
      scene.group(scene.commit(contextId, { commitNo: 2, firstOffset: 1_025, events: [], reservedThrough: 2_048, runnerEpoch: 9 })),
    );
    const [last] = await lane.lastCommits([contextId]);
    assert.deepEqual([last!.commitNo, last!.reservedThrough, last!.runnerEpoch], [2, 2_048, 9]);
  });
  assert.equal((await scene.store.eventsAfter(contextId, 0, 10)).length, 1);
});

promise("keeps a context with a taken key out of the commit, and says where the key is", async (scene) => {
  const [one, two] = (await scene.contexts(2)) as [number, number];
  await scene.withLanes(1, async (lane) => {
    const first = await lane.commit(
      scene.group(
        scene.commit(one, { commitNo: 1, events: [{}, { key: "K", payload: '"x"' }] }),
        scene.commit(two, { commitNo: 1 }),
      ),
    );
    const group = scene.group(
      scene.commit(one, { commitNo: 2, firstOffset: 3, events: [{ key: "K" }, { key: "new" }] }),
      scene.commit(two, { commitNo: 2, events: [{ key: "K" }] }),
    );
    const { landed, taken } = await lane.commit(group);
    assert.deepEqual([...landed], [two]);
    assert.deepEqual([...taken.keys()], [one]);
    assert.deepEqual(
      taken.get(one)!.map(({ key, offset, createdAtUs, digest }) => ({ key, offset, createdAtUs, digest })),
      [{ key: "K", offset: 2, createdAtUs: first.atUs, digest: digestOf('"x"') }],
    );
    assert.deepEqual(
      (await lane.lastCommits([one])).map(({ commitNo }) => commitNo),
      [1],
    );
    assert.deepEqual(await lane.takenKeys(one, ["new"]), []);
    const unchecked = scene.group(
      scene.commit(one, { commitNo: 2, firstOffset: 3, events: [{ key: "K" }], keysToCheck: [] }),
      scene.commit(two, { commitNo: 3 }),
    );
    await assert.rejects(lane.commit(unchecked), AlreadyStored);
    assert.deepEqual(
      (await lane.lastCommits([two])).map(({ commitNo }) => commitNo),
      [2],
    );
  });
});

promise("commits nothing that was planned in another generation", async (scene, subject) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  await scene.withLanes(1, async (lane) => {
    assert.deepEqual(await scene.land(lane, [contextId], 1), [contextId]);
    await subject.raiseGeneration();
    const generation = await lane.generation();
    assert.equal(generation, scene.generation + 1);
    assert.deepEqual(await scene.land(lane, [contextId], 2), []);
    const commit = scene.commit(contextId, { commitNo: 2 });
    assert.deepEqual([...(await lane.commit({ ...scene.group(commit), generation })).landed], [contextId]);
    assert.deepEqual(
      (await lane.lastCommits([contextId])).map(({ commitNo, generation }) => [commitNo, generation]),
      [[2, generation]],
    );
  });
});

promise("keeps out the commits that rest on a root which has moved to another control commit, and those alone", async (scene) => {
  const [root, other, contextId, neighbour] = (await scene.contexts(4)) as [number, number, number, number];
  const control = [{ type: "test/control", isControl: true, payload: "1" }];
  await scene.withLanes(1, async (lane) => {
    await scene.land(lane, [root, other, contextId, neighbour], 1);
    await lane.commit(scene.group(scene.commit(root, { commitNo: 2, events: control })));
    await lane.commit(scene.group(scene.commit(root, { commitNo: 3, lastControl: 2 })));
    const commit = async (commitNo: number, lastControl: number, ...beside: readonly CommitToWrite[]): Promise<number[]> => {
      const guards = [{ contextId: root, lastControl }];
      const { landed } = await lane.commit(scene.group(scene.commit(contextId, { commitNo, guards }), ...beside));
      return [...landed].sort((one, other) => one - other);
    };
    const beside = (commitNo: number, ...guards: readonly PolicyGuard[]) => scene.commit(neighbour, { commitNo, guards });
    assert.deepEqual(await commit(2, 1), []);
    assert.deepEqual(await commit(2, 1, beside(2)), [neighbour]);
    assert.deepEqual(await commit(2, 1, beside(3, { contextId: other, lastControl: 0 })), [neighbour]);
    assert.deepEqual(await commit(2, 2, beside(4, { contextId: other, lastControl: 1 })), [contextId]);
    assert.deepEqual(
      await commit(3, 2, beside(4)),
      [contextId, neighbour].sort((one, other) => one - other),
    );
  });
});

promise("gives a context to one of those that make it at the same time, and each another id", async (scene) => {
  const address = Array.from({ length: 6 }, () => scene.address());
  const made = await Promise.all(
    Array.from({ length: 4 }, () => scene.store.makeContexts(address.map((address) => ({ address, partition: 5 })))),
  );
  const all = made.flat();
  assert.equal(all.length, address.length);
  assert.equal(new Set(all.map(({ contextId }) => contextId)).size, address.length);
  for (const { contextId } of all) assert.equal(Math.floor(contextId / 2 ** 40), 5);
  const heads = await scene.store.loadHeads(address, 1);
  assert.deepEqual(
    heads.map(({ contextId, last }) => [contextId, last]).sort(([one], [other]) => (one as number) - (other as number)),
    all.map(({ contextId }) => [contextId, null]).sort(([one], [other]) => (one as number) - (other as number)),
  );
});

promise("answers control events page by page, of many contexts at once", async (scene) => {
  const [one, two] = (await scene.contexts(2)) as [number, number];
  const control = { type: "test/control", isControl: true, payload: "1" };
  await scene.withLanes(1, async (lane) => {
    await lane.commit(
      scene.group(
        scene.commit(one, { commitNo: 1, events: [control, {}, control, control, {}] }),
        scene.commit(two, { commitNo: 1, events: [{}, control, control] }),
      ),
    );
    const offsets = async (
      ranges: readonly (readonly [contextId: number, after: number, through: number])[],
      limit: number,
    ): Promise<number[][]> => {
      const events = await lane.controlEvents(
        ranges.map(([contextId, after, through]) => ({ contextId, after, through })),
        limit,
      );
      return ranges.map(([contextId]) => events.flatMap((event) => (event.contextId === contextId ? [event.offset] : [])));
    };
    assert.deepEqual(
      await offsets(
        [
          [one, 0, 5],
          [two, 0, 3],
        ],
        2,
      ),
      [
        [1, 3],
        [2, 3],
      ],
    );
    assert.deepEqual(
      await offsets(
        [
          [one, 3, 5],
          [two, 3, 3],
        ],
        2,
      ),
      [[4], []],
    );
    assert.deepEqual(
      await offsets(
        [
          [one, 0, 3],
          [two, 0, 2],
        ],
        10,
      ),
      [[1, 3], [2]],
    );
  });
});

promise("keeps the core rows of each version of the reducers apart, and those of lost commits out", async (scene) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  const core = (state: string) => [{ concern: "pause", asOf: 1, state }];
  await scene.withLanes(1, async (lane) => {
    await lane.commit(scene.group(scene.commit(contextId, { commitNo: 1, core: core('"one"') })));
    await lane.commit({ ...scene.group(scene.commit(contextId, { commitNo: 2, core: core('"two"') })), reducerVersion: 2 });
    await lane.commit(scene.group(scene.commit(contextId, { commitNo: 2, core: core('"lost"') })));
    const rows = async (version: number) =>
      (await lane.loadHeadsById([contextId], version)).flatMap(({ core }) => core.map(({ state }) => state));
    assert.deepEqual([await rows(1), await rows(2), await rows(3)], [['"one"'], ['"two"'], []]);
    await lane.commit(scene.group(scene.commit(contextId, { commitNo: 3, core: core('"three"') })));
    assert.deepEqual([await rows(1), await rows(2)], [['"three"'], ['"two"']]);
  });
});

promise("keeps a claimed context for the transaction that has it, to its end", async (scene, subject) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  await scene.withLanes(2, async (lane, rival) => {
    await scene.land(lane, [contextId], 1);
    const answers: unknown[] = [];
    const held = openTransaction(lane, async () => {
      const before = await lane.claimNextCommit(contextId);
      answers.push(before?.commitNo, before?.lastOffset);
      const { landed } = await lane.commitClaimed(scene.group(scene.commit(contextId, { commitNo: 2, events: [{ key: "mine" }] })));
      answers.push(landed.has(contextId));
    });
    await held.begun;
    assert.deepEqual(answers, [1, 1, true]);
    assert.deepEqual(await scene.store.takenKeys(contextId, ["mine"]), []);
    const rivals = scene.land(rival, [contextId], 2);
    await subject.untilBlocked(1);
    await held.end(true);
    assert.deepEqual(await rivals, []);
    assert.equal((await scene.store.takenKeys(contextId, ["mine"])).length, 1);
  });
});

promise("undoes a transaction that is not committed, with the types it added", async (scene, subject) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  await scene.withLanes(2, async (lane, rival) => {
    await scene.land(lane, [contextId], 1);
    const held = openTransaction(lane, async () => {
      await lane.addTypes(["test/undone"]);
      await lane.claimNextCommit(contextId);
    });
    await held.begun;
    const rivals = scene.land(rival, [contextId], 2);
    await subject.untilBlocked(1);
    await held.end(false);
    assert.deepEqual(await rivals, [contextId]);
    assert.equal((await lane.typeNumbers(["test/undone"])).size, 0);
    assert.deepEqual(
      (await lane.lastCommits([contextId])).map(({ commitNo }) => commitNo),
      [2],
    );
  });
});

promise("does not answer a claim that came too late", async (scene, subject) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  await scene.withLanes(2, async (lane, rival) => {
    await scene.land(lane, [contextId], 1);
    const held = openTransaction(lane, async () => {
      await lane.claimNextCommit(contextId);
      await lane.commitClaimed(scene.group(scene.commit(contextId, { commitNo: 2 })));
    });
    await held.begun;
    const claims: (number | undefined)[] = [];
    const late = openTransaction(rival, async () => claims.push((await rival.claimNextCommit(contextId))?.commitNo));
    await subject.untilBlocked(1);
    await held.end(true);
    await late.begun;
    await late.end(false);
    assert.deepEqual(claims, [undefined]);
  });
});

promise("never lets the feed skip a commit of a transaction that began earlier and ends later", async (scene) => {
  const { contextIds, partition } = await scene.neighbours(3);
  const [late, early, after] = contextIds as [number, number, number];
  const start = { xid: "0", contextId: 0, commitNo: 0 };
  await scene.withLanes(2, async (lane, rival) => {
    await scene.land(lane, [late], 1);
    const before = await untilFed(scene, partition, start, 1);
    const held = openTransaction(lane, async () => {
      await lane.claimNextCommit(late);
      await lane.commitClaimed(scene.group(scene.commit(late, { commitNo: 2 })));
    });
    await held.begun;
    await scene.land(rival, [early], 1);
    const position = before.at(-1)!.position;
    assert.deepEqual(await scene.store.commitsAfter(partition, position, 100), []);
    assert.equal(await scene.store.hasCommitsAfter(partition, position), true);
    await held.end(true);
    const both = await untilFed(scene, partition, position, 2);
    assert.deepEqual(
      both.map(({ position: { contextId, commitNo } }) => [contextId, commitNo]),
      [
        [late, 2],
        [early, 1],
      ],
    );
    assert.equal(await scene.store.hasCommitsAfter(partition, both.at(-1)!.position), false);
    await scene.land(rival, [after], 1);
    const [next] = await untilFed(scene, partition, both.at(-1)!.position, 1);
    assert.deepEqual([next!.position.contextId, next!.firstOffset, next!.lastOffset], [after, 1, 1]);
  });
});

promise("pages the feed so that each commit of a partition is in one page", async (scene) => {
  const { contextIds, partition } = await scene.neighbours(3);
  await scene.withLanes(1, async (lane) => {
    for (let commitNo = 1; commitNo <= 3; commitNo += 1) await scene.land(lane, contextIds, commitNo);
  });
  const seen: string[] = [];
  for (let position = { xid: "0", contextId: 0, commitNo: 0 }; seen.length < 9;) {
    const page = (await untilFed(scene, partition, position, Math.min(2, 9 - seen.length))).slice(0, 2);
    // Asked once they are fed: a transaction elsewhere in the server may hold the feed back.
    assert.equal(await scene.store.hasCommitsAfter(partition, position), true);
    seen.push(...page.map(({ position: { contextId, commitNo } }) => `${contextIds.indexOf(contextId)}@${commitNo}`));
    position = page.at(-1)!.position;
    if (seen.length === 9) assert.equal(await scene.store.hasCommitsAfter(partition, position), false);
  }
  assert.deepEqual(seen, ["0@1", "1@1", "2@1", "0@2", "1@2", "2@2", "0@3", "1@3", "2@3"]);
});

promise("sends small bodies with a page, and large ones when they are asked for", async (scene) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  const text = (bytes: number): string => JSON.stringify("x".repeat(bytes - 2));
  await scene.withLanes(1, async (lane) => {
    await lane.commit(
      scene.group(
        scene.commit(contextId, {
          commitNo: 1,
          events: [{ payload: text(smallBodyBytes) }, { payload: text(smallBodyBytes + 1) }],
        }),
      ),
    );
  });
  const events = await scene.store.eventsAfter(contextId, 0, 10);
  assert.deepEqual(
    events.map(({ payload, bodyBytes }) => [payload?.length, bodyBytes]),
    [
      [smallBodyBytes, smallBodyBytes],
      [undefined, smallBodyBytes + 1],
    ],
  );
  assert.deepEqual(await scene.store.bodiesOf(contextId, [2]), [{ offset: 2, payload: text(smallBodyBytes + 1), metadata: null }]);
});

promise("copies the events of a page, in order and with all that they hold", async (scene) => {
  const { store } = scene;
  const [contextId] = (await scene.contexts(1)) as [number];
  const text = (bytes: number): string => JSON.stringify("x".repeat(bytes - 2));
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await scene.withLanes(1, async (lane) => {
    await lane.commit(
      scene.group(
        scene.commit(contextId, {
          commitNo: 1,
          events: [
            { payload: '{"n":"é\\u0000"}', metadata: "null", key: "Ké" },
            { payload: null, type: "test/b" },
            { payload: null, metadata: "1" },
            { payload: text(smallBodyBytes) },
            { payload: text(smallBodyBytes + 1), metadata: "1" },
            { payload: "1", metadata: text(smallBodyBytes + 1) },
          ],
          traceparent,
        }),
        scene.commit((await scene.contexts(1))[0]!, { commitNo: 1 }),
      ),
    );
    await lane.commit(scene.group(scene.commit(contextId, { commitNo: 2, firstOffset: 1_000, events: [{}, {}] })));
  });
  const copied = async (after: number, limit: number): Promise<StoredEvent[]> => {
    const events: StoredEvent[] = [];
    await store.copyEventsAfter(contextId, after, limit, (event) => {
      const { memory, isWithoutBodies, bodyBytes } = event;
      const part = (from: number, end: number): string | null => (end < 0 ? null : memory.toString("utf8", from, end));
      const stored = event.toStored();
      assert.equal(isWithoutBodies, bodyBytes > smallBodyBytes);
      const texts: Partial<StoredEvent> = {
        source: memory.toString("utf8", event.source, event.sourceEnd),
        traceparent: part(event.traceparent, event.traceparentEnd),
        idempotencyKey: part(event.key, event.keyEnd),
        ...(isWithoutBodies
          ? { payload: null, metadata: null }
          : { payload: part(event.payload, event.payloadEnd), metadata: part(event.metadata, event.metadataEnd) }),
      };
      const { offset, type, formatVersion, createdAtUs } = event;
      assert.deepEqual({ offset, type, formatVersion, createdAtUs, bodyBytes, ...texts }, stored);
      events.push(stored);
    });
    return events;
  };
  for (const [after, limit] of [
    [0, 100],
    [0, 8],
    [0, 3],
    [3, 100],
    [6, 1],
    [1_001, 10],
    [2_000, 10],
  ] as const)
    assert.deepEqual(await copied(after, limit), await store.eventsAfter(contextId, after, limit), `after ${after}`);

  // Whoever takes them may fail, and is given no more.
  let taken = 0;
  const failing = store.copyEventsAfter(contextId, 0, 100, () => {
    taken += 1;
    if (taken === 3) throw new Error("enough");
  });
  await assert.rejects(failing, { message: "enough" });
  assert.equal(taken, 3);
  assert.equal((await copied(0, 100)).length, 8);
});

promise("finds events of types in a range, event by event or by the blocks that were entered", async (scene) => {
  const { store } = scene;
  const [contextId] = (await scene.contexts(1)) as [number];
  await scene.withLanes(1, async (lane) => {
    const events = Array.from({ length: 2_100 }, (_, at) => ({ type: at % 700 === 0 ? "test/b" : "test/a" }));
    await lane.commit(scene.group(scene.commit(contextId, { commitNo: 1, firstOffset: 1, events })));
  });
  const types = [scene.typeNumber("test/b")];
  const offsets = async (found: Promise<readonly { offset: number }[]>): Promise<number[]> =>
    (await found).map(({ offset }) => offset);
  assert.deepEqual(await offsets(store.eventsOfTypesInRange({ contextId, after: 1, through: 2_100 }, types, 10)), [701, 1_401]);
  assert.deepEqual(await offsets(store.eventsOfTypesInRange({ contextId, after: 0, through: 1_400 }, types, 10)), [1, 701]);
  assert.equal(await store.typeBlockMark(contextId), 0);
  await Promise.all([store.enterTypeBlocks(contextId, 0, 1), store.enterTypeBlocks(contextId, 0, 2)]);
  await store.enterTypeBlocks(contextId, 0, 1);
  assert.equal(await store.typeBlockMark(contextId), 2);
  assert.deepEqual(await offsets(store.eventsOfTypesInBlocks({ contextId, after: 1, through: 2_047 }, types, 10)), [701, 1_401]);
  assert.deepEqual(await offsets(store.eventsOfTypesInBlocks({ contextId, after: 0, through: 2_047 }, types, 2)), [1, 701]);
});

const dueAt = (scheduledAtOffset: number, atMs: number) => ({ scheduledAtOffset, due: { kind: "at", atMs } as const });
/** More than other cases leave behind. */
const everything = 10_000;

promise("writes due rows with the commit that changes them, and gives each to one who claims it", async (scene) => {
  const [one, other] = (await scene.contexts(2)) as [number, number];
  const { schedules } = scene.store;
  const claims = async () => {
    const page = await schedules.claimDue(everything, 60_000, 1_000);
    return page.claims.filter(({ contextId }) => contextId === one || contextId === other);
  };
  await scene.withLanes(1, async (lane) => {
    const due = [
      { key: "past", row: dueAt(1, 0) },
      { key: "held", row: { scheduledAtOffset: 1, due: { kind: "held" } as const } },
      { key: "later", row: { scheduledAtOffset: 1, due: { kind: "after", afterMs: 3_600_000 } as const } },
      { key: "gone", row: dueAt(1, 0) },
    ];
    await lane.commit(
      scene.group(scene.commit(one, { commitNo: 1, due }), scene.commit(other, { commitNo: 1, due: due.slice(0, 1) })),
    );
    // One that loses the fence changes nothing.
    await lane.commit(scene.group(scene.commit(one, { commitNo: 1, due: [{ key: "past", row: null }] })));
    await lane.commit(scene.group(scene.commit(one, { commitNo: 2, due: [{ key: "gone", row: null }] })));
    const first = await claims();
    assert.deepEqual(
      new Set(first.map(({ contextId, key, dueMs }) => `${contextId} ${key} ${dueMs}`)),
      new Set([`${one} past 0`, `${other} past 0`]),
    );
    assert.deepEqual(
      first.map(({ scheduledAtOffset }) => scheduledAtOffset),
      [1, 1],
    );
    assert.deepEqual(await claims(), []);
    // A commit that changes the row ends the claim on it.
    const claim = first.find(({ contextId }) => contextId === one)!;
    await lane.commit(scene.group(scene.commit(one, { commitNo: 3, due: [{ key: "past", row: dueAt(3, 1) }] })));
    await schedules.settleDue(claim, null);
    assert.deepEqual(
      (await claims()).map(({ contextId, scheduledAtOffset, dueMs }) => [contextId, scheduledAtOffset, dueMs]),
      [[one, 3, 1]],
    );
  });
});

promise("never answers a row before it is due, and says how soon the next one is", async (scene) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  const { schedules } = scene.store;
  await scene.withLanes(1, async (lane) => {
    const row = { scheduledAtOffset: 1, due: { kind: "after", afterMs: 200 } as const };
    const { atUs } = await lane.commit(scene.group(scene.commit(contextId, { commitNo: 1, due: [{ key: "k", row }] })));
    for (;;) {
      const { claims, nowMs, nextInMs } = await schedules.claimDue(everything, 60_000, 500);
      const claim = claims.find((claim) => claim.contextId === contextId);
      if (claim === undefined) {
        assert.ok(nextInMs !== null && nextInMs <= 202);
        continue;
      }
      assert.ok(claim.dueMs * 1_000 >= atUs + 200_000 && claim.dueMs * 1_000 <= atUs + 202_000);
      assert.ok(nowMs >= claim.dueMs);
      break;
    }
  });
});

promise("settles a row for whoever has claimed it, and for nobody else", async (scene) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  const { schedules } = scene.store;
  const claim = async (claimMs: number) =>
    (await schedules.claimDue(everything, claimMs, 0)).claims.find((claim) => claim.contextId === contextId);
  await scene.withLanes(1, (lane) =>
    lane.commit(scene.group(scene.commit(contextId, { commitNo: 1, due: [{ key: "k", row: dueAt(1, 5) }] }))).then(() => undefined),
  );
  const ended = (await claim(-1))!;
  const held = (await claim(60_000))!;
  await schedules.settleDue(ended, null);
  await schedules.settleDue(held, { kind: "at", atMs: 7 });
  await schedules.settleDue(held, null);
  const next = (await claim(60_000))!;
  assert.equal(next.dueMs, 7);
  await schedules.settleDue(next, { kind: "held" });
  assert.equal(await claim(60_000), undefined);
});

promise("answers the events that define schedules", async (scene) => {
  const [contextId] = (await scene.contexts(1)) as [number];
  await scene.withLanes(1, async (lane) => {
    const commit = scene.commit(contextId, { commitNo: 1, events: [{ payload: '{"n":1.0}' }, {}] });
    const { atUs } = await lane.commit(scene.group(commit));
    const places = [1, 3].map((offset) => ({ contextId, offset }));
    const { source } = commit.commit.rows[0]!.event;
    assert.deepEqual(await scene.store.schedules.definitions(places), [
      { contextId, offset: 1, createdAtUs: atUs, formatVersion: 1, payload: '{"n":1.0}', source },
    ]);
  });
});

promise("finds contexts that lack a due row, and restores what they lack", async (scene) => {
  const [whole, lacking, held, resting] = (await scene.contexts(4)) as [number, number, number, number];
  const { schedules } = scene.store;
  const core = (failedAtOffset: number | null) => {
    const state = JSON.stringify({ k: { key: "k", scheduledAtOffset: 1, failedAtOffset } });
    return { core: [{ concern: "schedules", asOf: 1, state }], events: [{ isControl: true }] };
  };
  const found = async () => {
    const ids: number[] = [];
    for (let after = whole - 1; ;) {
      const { contextIds, throughContextId } = await schedules.lackingDue(after, 2, 1);
      ids.push(...contextIds);
      if (throughContextId === null) return ids.filter((id) => [whole, lacking, held, resting].includes(id));
      after = throughContextId;
    }
  };
  const isHeld = { scheduledAtOffset: 1, due: { kind: "held" } as const };
  const far = dueAt(1, 4_000_000_000_000);
  await scene.withLanes(1, async (lane) => {
    const commits = [
      scene.commit(whole, { commitNo: 1, ...core(null), due: [{ key: "k", row: far }] }),
      scene.commit(lacking, { commitNo: 1, ...core(null) }),
      scene.commit(held, { commitNo: 1, ...core(null), due: [{ key: "k", row: isHeld }] }),
      scene.commit(resting, { commitNo: 1, ...core(7) }),
    ];
    await lane.commit(scene.group(...commits));
  });
  assert.deepEqual(await found(), [lacking, held]);
  const rows = [whole, lacking, held].map((contextId) => ({ contextId, key: "k", ...far }));
  assert.equal(await schedules.restoreDue(rows), 2);
  assert.equal(await schedules.restoreDue(rows), 0);
  assert.deepEqual(await found(), []);
});

/** Polls the feed until it answers `count` commits: other transactions of the server may hold it back for a moment. */
async function untilFed(scene: Scene, partition: number, position: Parameters<Scene["store"]["commitsAfter"]>[1], count: number) {
  for (let tries = 0; tries < 20_000; tries += 1) {
    const page = await scene.store.commitsAfter(partition, position, 100);
    if (page.length >= count) return page;
  }
  throw new assert.AssertionError({ message: `the feed of partition ${partition} does not answer ${count} commits` });
}
