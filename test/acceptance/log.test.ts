/** The promises of the log, each under its number, held over gRPC by a process of the service on a real database and broker. */
import { eventCatalog, itx } from "iterate/events";
import { eventually } from "@iterate-platform/testing";
import { uuidv7 } from "@iterate-platform/service/ids";
import { describe, expect, test } from "vitest";
import {
  codeOf,
  offsetsOf,
  person,
  platform,
  seen,
  useLogService,
  type Caller,
  type Context,
  type EventFields,
} from "./log-service.fixture.js";

const service = useLogService();
const append = service.append;
const read = service.read.bind(service);

/** A context in which the next event takes the offset after `head`: the first append of all gives birth to it at offset 1. */
async function grown(head: number): Promise<Context> {
  const context = service.newContext();
  if (head > 0)
    await append(
      context,
      Array.from({ length: head - 1 }, (_, at) => ({ payload: at })),
    );
  return context;
}

async function eventRows({ owner, path }: Context): Promise<number> {
  const { rows } = await service.pool.query<{ count: number }>(
    "select count(*)::int as count from event join context using (context_id) where owner = $1 and path = $2",
    [owner, path],
  );
  return rows[0]!.count;
}

const paused: EventFields = { type: itx.paused.type, payload: { reason: "quota" } };
const resumed: EventFields = { type: itx.resumed.type, payload: {} };

describe("appending", () => {
  test("[iterate-1] three events in one call take the next offsets, in one commit that is told once", async () => {
    const context = await grown(4);
    const before = await service.head(context);
    expect(offsetsOf(await append(context, [{}, {}, {}]))).toEqual([5, 6, 7]);
    expect(await service.head(context)).toEqual({ offset: 7, commitNo: before.commitNo + 1 });
    const commits = await eventually(async () => {
      const all = await service.commits(context);
      return all.length === before.commitNo + 1 && all;
    });
    expect(commits.at(-1)).toEqual({ firstOffset: 5, lastOffset: 7 });
  });

  test("[iterate-2] no events are answered with none, and nothing is written", async () => {
    const unborn = service.newContext();
    expect(await append(unborn, [])).toEqual([]);
    expect(await service.head(unborn)).toEqual({ offset: 0, commitNo: 0 });
    const born = await grown(2);
    const before = await service.head(born);
    expect(await append(born, [])).toEqual([]);
    expect(await service.head(born)).toEqual(before);
  });

  test("[iterate-3] a key and body that landed are answered with their event: no offset, nothing told", async () => {
    const context = await grown(1);
    const fields = { key: "K", payload: { a: 1 } };
    const [first] = await append(context, [fields]);
    const head = await service.head(context);
    const told = service.as(person).streamEvents({ context, afterOffset: BigInt(head.offset), types: [], includeEphemeral: false });
    await told.next();
    expect(await append(context, [fields])).toEqual([{ ...first, existing: true }]);
    expect(await service.head(context)).toEqual(head);
    const [next] = await append(context, [{ payload: "next" }]);
    const { value } = await told.next();
    expect(value!.events.map(({ offset }) => Number(offset))).toEqual([next!.offset]);
    await told.return?.(undefined);
  });

  test("[iterate-4] a taken key with another body refuses the batch, and names the event that has it", async () => {
    const context = await grown(1);
    const [first] = await append(context, [{ key: "K", payload: 1 }]);
    await expect(append(context, [{ payload: "fresh" }, { key: "K", payload: 2 }])).rejects.toMatchObject({
      code: "IDEMPOTENCY_CONFLICT",
      retryable: false,
      data: { existingOffset: first!.offset },
    });
    expect((await service.head(context)).offset).toBe(first!.offset);
  });

  test("[iterate-5] a key that comes twice in one batch with one body is one event", async () => {
    const context = await grown(1);
    const receipts = await append(context, [{ key: "K", payload: 1 }, { payload: "between" }, { key: "K", payload: 1 }]);
    expect(receipts.map(({ offset, existing }) => [offset, existing])).toEqual([
      [2, false],
      [3, false],
      [2, true],
    ]);
    expect((await read(context)).offsets).toEqual([1, 2, 3]);
  });

  test("[iterate-6] a paused log answers a key that is taken, whatever offset was expected", async () => {
    const context = await grown(1);
    const [first] = await append(context, [{ key: "K", payload: 1 }]);
    await append(context, [paused]);
    expect(await append(context, [{ key: "K", payload: 1, offset: 99 }])).toEqual([{ ...first, existing: true }]);
    await expect(append(context, [{ key: "L", payload: 1 }])).rejects.toMatchObject({ code: "STREAM_PAUSED" });
  });

  test("[iterate-7] an event that is to land where it cannot refuses the batch", async () => {
    const context = await grown(7);
    await expect(append(context, [{ offset: 9 }])).rejects.toMatchObject({
      code: "OFFSET_CONFLICT",
      retryable: false,
      data: { expected: 9, actual: 8 },
    });
    await expect(append(context, [{}, { offset: 8 }])).rejects.toMatchObject({ data: { expected: 8, actual: 9 } });
    expect(offsetsOf(await append(context, [{ offset: 8 }, {}, { offset: 10 }]))).toEqual([8, 9, 10]);
  });

  test("[iterate-8] a body one byte over 8 MiB refuses the batch, and the next append takes its offsets", async () => {
    const context = await grown(1);
    const body = (bytes: number) => Buffer.from(`"${"x".repeat(bytes - 2)}"`);
    const limit = 8 * 1_048_576;
    await expect(append(context, [{ payload: "small" }, { payload: body(limit + 1) }])).rejects.toMatchObject({
      code: "EVENT_TOO_LARGE",
      retryable: false,
      data: { bytes: limit + 1, limit },
    });
    expect(offsetsOf(await append(context, [{ payload: "small" }, { payload: body(limit) }]))).toEqual([2, 3]);
  });

  test("[iterate-9] 3 MB full of surrogate pairs come back byte for byte, as every spelling does", async () => {
    const context = await grown(1);
    const bodies = [
      `"${"😀".repeat(750_000)}"`,
      `"${String.raw`\ud83d\ude00`.repeat(10_000)}"`,
      String.raw`{"b":1,"a":"\u0000\ud800 \/","n":[1.0,1e2,-0,123456789012345678901234567890]}`,
      ' { "spaced" : [ ] } ',
    ];
    await append(
      context,
      bodies.map((text) => ({ payload: Buffer.from(text) })),
    );
    for (const [index, text] of bodies.entries()) {
      const [event] = (
        await service
          .as(person)
          .readEvents({ context, afterOffset: BigInt(index + 1), limit: 1, types: [], includeEphemeral: false })
      ).events;
      expect(Buffer.from(event!.payload!).equals(Buffer.from(text))).toBe(true);
    }
  });

  test("[iterate-16] a body whose keys come in another order is the same body", async () => {
    const context = await grown(1);
    const [first] = await append(context, [
      { key: "K", payload: Buffer.from('{"a":1,"b":{"c":1,"d":[1,2]}}'), metadata: { x: 1, y: 2 } },
    ]);
    const again = { key: "K", payload: Buffer.from('{"b":{"d":[1,2],"c":1.0},"a":1}'), metadata: { y: 2, x: 1 } };
    expect(await append(context, [again])).toEqual([{ ...first, existing: true }]);
    const changed = { ...again, payload: Buffer.from('{"b":{"d":[2,1],"c":1},"a":1}') };
    await expect(append(context, [changed])).rejects.toMatchObject({ code: "IDEMPOTENCY_CONFLICT" });
  });
});

describe("ephemeral events", () => {
  const frame = (payload: unknown = {}): EventFields => ({ type: "example.com/progress-frame", payload, ephemeral: true });

  test("[iterate-10] take an offset and no row: at most one reservation, and no default read has them", async () => {
    const context = await grown(2);
    const before = await service.head(context);
    const offsets = offsetsOf(await append(context, [frame(), frame()]));
    expect(offsets).toEqual([3, 4]);
    expect(offsetsOf(await append(context, [frame()]))).toEqual([5]);
    expect(await eventRows(context)).toBe(2);
    expect((await service.head(context)).commitNo).toBeLessThanOrEqual(before.commitNo + 1);
    expect((await read(context)).offsets).toEqual([1, 2]);
    await expect(append(context, [{ ...frame(), key: "K" }])).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(append(context, [{ ...paused, ephemeral: true }])).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });

  test("[iterate-11] after a crash the next stored event lies above every offset they could have had", async () => {
    const context = await grown(4);
    expect(offsetsOf(await append(context, [frame()]))).toEqual([5]);
    await service.restart("killed");
    const [next] = await append(context, [{}]);
    expect(next!.offset).toBeGreaterThan(5);
    const page = await read(context);
    expect(page.offsets).toEqual([1, 2, 3, 4, next!.offset]);
    expect(page).toMatchObject({ scannedThrough: next!.offset, atHead: true });
  });

  test("[iterate-12] are kept to a megabyte of the newest, and the newest whatever its size", async () => {
    const context = await grown(2);
    const large = (bytes: number) => frame("x".repeat(bytes - 2));
    for (let n = 0; n < 6; n += 1) await append(context, [large(300 * 1_024)]);
    const everything = () => read(context, 0, { includeEphemeral: true });
    expect(await everything()).toMatchObject({ offsets: [1, 2, 6, 7, 8], ephemeralsIncluded: true });
    await append(context, [large(2 * 1_048_576)]);
    expect((await everything()).offsets).toEqual([1, 2, 9]);
  });

  test("[iterate-13] are merged into a page in offset order, and neither counted nor part of the proof", async () => {
    const context = await grown(1);
    await append(context, [{}, frame(), {}, frame(), {}, frame()]);
    const page = async (after: number) => {
      const { offsets, scannedThrough, atHead } = await read(context, after, { limit: 2, includeEphemeral: true });
      return { offsets, scannedThrough, atHead };
    };
    // The birth at offset 1 is left out: the stored events are 2, 4 and 6.
    expect(await page(1)).toEqual({ offsets: [2, 3, 4], scannedThrough: 4, atHead: false });
    expect(await page(4)).toEqual({ offsets: [5, 6, 7], scannedThrough: 6, atHead: true });
    expect((await page(6)).offsets).toEqual([7]);
  });

  test("[iterate-24] of a refused batch are nowhere: no phantom, no offset", async () => {
    const context = await grown(3);
    await expect(append(context, [frame(), { offset: 99 }])).rejects.toMatchObject({ code: "OFFSET_CONFLICT" });
    const page = await read(context, 0, { includeEphemeral: true });
    expect(page.offsets).toEqual([1, 2, 3]);
    expect(offsetsOf(await append(context, [{}]))).toEqual([4]);
  });
});

describe("who may append", () => {
  test("[iterate-15] a paused context takes the exempt types from their writers, nothing else from anybody, and always a resume", async () => {
    const context = await grown(1);
    const failure = { code: "CODE_FAILED", message: "" };
    await append(context, [paused]);
    await append(
      context,
      [{ type: itx.subscriptionDeliveryHalted.type, payload: { name: "a", afterOffset: 0, attempts: 1, error: failure } }],
      platform,
    );
    await append(
      context,
      [{ type: itx.subscriptionDeliveryFailed.type, payload: { name: "a", emit: "1", type: "x", error: failure } }],
      platform,
    );
    await append(context, [{ type: itx.workFailed.type, payload: { facet: "a", error: failure } }], platform);
    await append(context, [paused], codeOf("/a"));
    for (const caller of [person, codeOf("/a"), platform])
      await expect(append(context, [{}], caller)).rejects.toMatchObject({ code: "STREAM_PAUSED", data: { pausedAtOffset: 6 } });
    await append(context, [resumed]);
    await append(context, [resumed]);
    expect(offsetsOf(await append(context, [{}]))).toEqual([9]);
  });

  test("[iterate-17] the source is stamped from the call, and what a writer claims is dropped", async () => {
    const context = { owner: service.owner, path: "/y" };
    const forged = { origin: "/", principal: "usr_forged", platform: true, cause: { chain: "forged", depth: 0 } };
    await append(context, [{ metadata: { source: forged }, payload: { source: forged } }], codeOf("/x"));
    await append(context, [{}], person);
    await append(context, [{}], platform);
    const [, byCode, byPerson, byPlatform] = (await read(context)).events.map(({ event }) => event.source!);
    expect(byCode).toMatchObject({ origin: "/x", platform: false, principal: undefined });
    expect(byCode!.cause!.chain).toMatch(/ with person ~/);
    expect(byPerson).toMatchObject({ origin: "/", platform: false, principal: person.principal });
    expect(byPlatform).toMatchObject({ origin: "/y", platform: true, principal: undefined });
  });

  test("[iterate-18] what only the platform records is refused from everyone else, and so is what nobody records", async () => {
    const context = await grown(1);
    const facts = [...eventCatalog.values()].filter(({ writer }) => writer === "platform").map(({ type }) => type);
    expect(facts).toEqual(
      expect.arrayContaining(
        ["itx/created", "itx/loop-limit", "itx/work-failed", "project/worker-updated"].map((name) => `events.iterate.com/${name}`),
      ),
    );
    const unknown = ["itx/alarm-trace", "slack/connected"].map((name) => `events.iterate.com/${name}`);
    for (const caller of [person, codeOf("/a")]) {
      for (const type of facts)
        await expect(append(context, [{ type, payload: {} }], caller)).rejects.toMatchObject({ code: "FORBIDDEN" });
      for (const type of unknown.filter((type) => !eventCatalog.has(type)))
        await expect(append(context, [{ type, payload: {} }], caller)).rejects.toMatchObject({ code: "INVALID_INPUT" });
    }
    expect((await service.head(context)).offset).toBe(0);
  });
});

describe("reading", () => {
  test("[iterate-14] exactly 500 events asked for by 500 are at the head, and it says so", async () => {
    const context = await grown(500);
    const page = await read(context, 0, { limit: 500 });
    expect(page.events).toHaveLength(500);
    expect(page).toMatchObject({ scannedThrough: 500, atHead: true });
    await append(context, [{}]);
    expect(await read(context, 0, { limit: 500 })).toMatchObject({ scannedThrough: 500, atHead: false });
  });

  test("[iterate-25] a log whose folded state is gone is folded again, and goes on at a fresh offset", async () => {
    const context = await grown(3);
    await append(context, [paused]);
    await service.restart("ended", () => service.pool.query("delete from core_state"));
    await expect(append(context, [{}])).rejects.toMatchObject({ code: "STREAM_PAUSED", data: { pausedAtOffset: 4 } });
    expect(offsetsOf(await append(context, [resumed, {}]))).toEqual([5, 6]);
    expect((await read(context)).offsets).toEqual([1, 2, 3, 4, 5, 6]);
  });
});

describe("waiting", () => {
  const asked = { type: "example.com/asked" };
  const isWaiting = (count: number) => eventually(async () => (await service.waiters()) === count);

  test("[iterate-19] is for the next occurrence: what is in the log already does not count", async () => {
    const context = await grown(1);
    await append(context, [asked]);
    const waiting = service.wait(context, [asked.type]);
    await isWaiting(1);
    const [next] = await append(context, [asked]);
    expect((await waiting).offset).toBe(next!.offset);
  });

  test("[iterate-20] after offset 0 finds the first match, however long the log is", async () => {
    const context = await grown(600);
    const [first] = await append(context, [
      { ...asked, payload: { n: 1 } },
      { ...asked, payload: { n: 1 } },
    ]);
    expect((await service.wait(context, [asked.type], { after: 0, payload: { n: 1 } })).offset).toBe(first!.offset);
  });

  test("[iterate-21] after an offset that is not reached yet ignores what comes before it", async () => {
    const context = await grown(1);
    await append(context, [asked]);
    const waiting = service.wait(context, [asked.type], { after: 10, timeoutMs: 1_000 });
    waiting.catch(() => undefined);
    await isWaiting(1);
    await append(context, [asked]);
    await expect(waiting).rejects.toMatchObject({ code: "WAIT_TIMEOUT", retryable: true });
  });

  test("[iterate-22] one event ends every wait for it, in the order they came", async () => {
    const context = await grown(1);
    const order: number[] = [];
    const waits = [];
    for (let waiter = 1; waiter <= 3; waiter += 1) {
      waits.push(service.wait(context, [asked.type]).then(({ offset }) => [order.push(waiter), offset][1]!));
      await isWaiting(waiter);
    }
    const [only] = await append(context, [asked]);
    expect(await Promise.all(waits)).toEqual([only!.offset, only!.offset, only!.offset]);
    expect(order).toEqual([1, 2, 3]);
  });

  test("[iterate-23] a match that somebody appends on seeing a match does not take its place", async () => {
    const context = await grown(1);
    const follower = service.as(person).streamEvents({ context, afterOffset: 1n, types: [asked.type], includeEphemeral: false });
    await follower.next();
    const nesting = (async () => {
      const step = await follower.next();
      await append(context, [{ ...asked, payload: "nested" }]);
      return seen(step.value!.events[0]!).offset;
    })();
    const waiting = service.wait(context, [asked.type]);
    await isWaiting(1);
    const [outer] = await append(context, [{ ...asked, payload: "outer" }]);
    expect(await waiting).toMatchObject({ offset: outer!.offset, payload: "outer" });
    expect(await nesting).toBe(outer!.offset);
    await follower.return?.(undefined);
  });
});

describe("a chain of reactions", () => {
  const echoed: EventFields = { type: "example.com/echoed" };

  /** Appends as code that handles `step` reactions after the start of the chain, as a runner would have it. */
  const reaction = (chain: string, depth: number): Caller => codeOf("/echo", { cause: { chain, depth } });

  test("[iterate-84] that answers itself ends after nine events and one record, and reads go on", async () => {
    const context = await grown(1);
    const chain = `2030-01-01T00:00:00.000Z with person ~${uuidv7()}`;
    const handled = service.as(person).streamEvents({ context, afterOffset: 1n, types: [echoed.type!], includeEphemeral: false });
    await append(context, [echoed], reaction(chain, 0));
    let refusals = 0;
    for await (const { events } of handled) {
      for (const event of events) {
        const { depth } = event.source!.cause!;
        // The handler is repeated, as a delivery would be: the record is there once.
        for (let attempt = 0; attempt < 2 && refusals < 2; attempt += 1) {
          const key = `echo:${event.offset}`;
          const outcome = await append(context, [{ ...echoed, key }], reaction(chain, depth + 1)).catch((error: unknown) => error);
          if (!Array.isArray(outcome)) {
            expect(outcome).toMatchObject({ code: "LOOP_LIMIT", retryable: false, data: { chain, depth: 9, limit: 8 } });
            refusals += 1;
          }
        }
      }
      if (refusals === 2) break;
    }
    const { events } = await read(context);
    expect(events.filter(({ type }) => type === echoed.type).map(({ event }) => event.source!.cause!.depth)).toEqual([
      0, 1, 2, 3, 4, 5, 6, 7, 8,
    ]);
    const records = events.filter(({ type }) => type === itx.loopLimit.type);
    expect(records.map(({ payload }) => payload)).toEqual([
      { chain, depth: 9, error: expect.stringContaining("9 reactions deep") as string },
    ]);
    expect(records[0]!.event.source).toMatchObject({ platform: true, origin: context.path });
    // Another chain is none of its business, here and later.
    await append(context, [echoed], reaction(`${chain}-other`, 8));
  });

  test("[iterate-86] that is over gives birth to no context", async () => {
    const unborn = service.newContext();
    await expect(append(unborn, [{}], reaction(`chain ${uuidv7()}`, 9))).rejects.toMatchObject({ code: "LOOP_LIMIT" });
    expect(await service.head(unborn)).toEqual({ offset: 0, commitNo: 0 });
    expect(await read(unborn)).toMatchObject({ offsets: [], atHead: true });
    await append(unborn, [{}], reaction(`chain ${uuidv7()}`, 8));
    expect((await read(unborn)).offsets).toEqual([1, 2]);
  });
});

test("every event keeps the trace it was written in", async () => {
  const context = await grown(1);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const stream = service.as(person).appendStream({ deadlineMs: 10_000 });
  const item = (trace: string) => ({
    append: { context, appendId: uuidv7(), events: [{ ...echo(), payload: Buffer.from("1") }] },
    execution: "",
    traceparent: trace,
  });
  await stream.send({ items: [item(traceparent), item("")], stopOnError: false });
  stream.end();
  for await (const { outcomes } of stream.responses) for (const { outcome } of outcomes) expect(outcome!.$case).toBe("response");
  const traces = (await read(context, 1)).events.map(({ event }) => event.traceparent);
  expect(traces[0]).toMatch(/^00-0af7651916cd43dd8448eb211c80319c-/);
  expect(traces[1]).not.toContain("0af7651916cd43dd8448eb211c80319c");
});

function echo() {
  return {
    type: "example.com/echoed",
    payload: undefined,
    metadata: undefined,
    idempotencyKey: "",
    expectedOffset: undefined,
    processor: undefined,
    ephemeral: false,
    formatVersion: 0,
  };
}
