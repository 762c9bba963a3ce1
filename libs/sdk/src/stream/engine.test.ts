import { describe, expect, it } from "vitest";
import { z } from "zod";
import { codedError } from "../lib/index.js";
import { defineProcessorContract, ProcessorEngine, StreamProcessor } from "./processor.js";
import type {
  BatchAnswer,
  EventBatch,
  ProcessBatchEndArgs,
  ProcessEventArgs,
  ProcessorProblem,
  ReduceArgs,
  StreamEvent,
  Timers,
} from "./processor.js";
import { OffsetWaiters } from "./offset-waiters.js";
import { committedEvent, memoryStorage, memoryStream, settle } from "./test-support.js";

const Contract = defineProcessorContract({
  slug: "recorder",
  version: "1",
  description: "Keeps what it reduced and tells what it processed",
  stateSchema: z.object({ seen: z.array(z.number()).default([]) }),
  events: {
    count: z.object({ by: z.number().default(1) }),
    counted: z.object({ offset: z.number() }),
  },
  consumes: ["count", "poke"],
  emits: ["counted"],
});
type Contract = typeof Contract;
type Hook = (args: ProcessEventArgs<Contract>, log: string[]) => unknown;

class Recorder extends StreamProcessor<Contract> {
  readonly contract: Contract;
  readonly log: string[] = [];
  constructor(
    private readonly hook: Hook = () => undefined,
    private readonly onReduce: (args: ReduceArgs<Contract>) => void = () => undefined,
    version = "1",
  ) {
    super();
    this.contract = { ...Contract, version };
  }
  override reduce(args: ReduceArgs<Contract>) {
    this.onReduce(args);
    const { event, state } = args;
    return event.type === "count" ? { seen: [...state.seen, event.offset] } : undefined;
  }
  override processEvent(args: ProcessEventArgs<Contract>) {
    this.log.push(
      `${args.event === null ? "head" : `${args.event.type}@${args.event.offset}`}${args.delivery.caughtUp ? "!" : ""}`,
    );
    return this.hook(args, this.log);
  }
}

function host(processor: Recorder, { stream = memoryStream(), storage = memoryStorage<{ seen: number[] }>() } = {}) {
  const problems: ProcessorProblem[] = [];
  const engine = new ProcessorEngine(processor, { stream, storage, report: (problem) => problems.push(problem) });
  return { engine, stream, storage, problems };
}

const event = (offset: number, type = "count", payload: unknown = {}): StreamEvent => committedEvent({ type, payload }, { offset });
const poke = (offset: number): StreamEvent => committedEvent({ type: "poke" }, { offset, ephemeral: true });
function batch(events: StreamEvent[], options: { after?: number; through?: number; atHead?: boolean } = {}): EventBatch {
  const after = options.after ?? (events[0]?.offset ?? 1) - 1;
  return { events, range: { after, through: options.through ?? events.at(-1)?.offset ?? after }, atHead: options.atHead ?? true };
}

async function deliver<C>(answers: AsyncIterable<BatchAnswer<C>>): Promise<BatchAnswer<C>[]> {
  const all: BatchAnswer<C>[] = [];
  for await (const answer of answers) all.push(answer);
  return all;
}

/** A promise that the test resolves. */
const gate = () => Promise.withResolvers<void>();
/** Lets everything run that can run without a timer or I/O. */
const turnOfTheLoop = () => new Promise((resolve) => setImmediate(resolve));

describe("blockers", () => {
  it("[iterate-63] holds the next event until every blocker of this one is done, nested ones too", async () => {
    const slow = gate();
    const processor = new Recorder(({ event, blockProcessorWhile }, log) => {
      if (event?.offset !== 1) return;
      blockProcessorWhile(async () => {
        blockProcessorWhile(async () => {
          await turnOfTheLoop();
          log.push("nested");
          blockProcessorWhile(() => log.push("nested twice"));
        });
        await slow.promise;
        log.push("first");
      });
      blockProcessorWhile(() => log.push("second"));
    });
    const { engine } = host(processor);

    const done = deliver(engine.processBatch(batch([event(1), event(2)])));
    await turnOfTheLoop();
    expect(processor.log).toEqual(["count@1"]);
    slow.resolve();
    await done;
    expect(processor.log).toEqual(["count@1", "first", "second", "nested", "nested twice", "count@2!"]);
  });

  it("waits for what processEvent itself awaits and for appends nobody awaited", async () => {
    const landing = gate();
    const stream = memoryStream();
    const slowStream = {
      ...stream,
      append: async (events: Parameters<typeof stream.append>[0]) => (await landing.promise, stream.append(events)),
    };
    const processor = new Recorder(async ({ event, append }, log) => {
      await turnOfTheLoop();
      log.push("awaited");
      if (event?.offset === 1) void append({ type: "counted", payload: { offset: 1 } });
    });
    const { engine } = host(processor, { stream: slowStream });
    const done = deliver(engine.processBatch(batch([event(1), event(2)])));
    await turnOfTheLoop();
    await turnOfTheLoop();
    expect(processor.log).toEqual(["count@1", "awaited"]);
    landing.resolve();
    await done;
    expect(processor.log).toEqual(["count@1", "awaited", "count@2!", "awaited"]);
  });

  it("stays open for what follows on an append nobody waits for", async () => {
    const processor = new Recorder(({ event, append, emit, blockProcessorWhile }, log) => {
      if (event === null) return;
      void append({ type: "counted", payload: { offset: 1 } }).then(() => {
        emit({ type: "counted", payload: { offset: 2 } });
        blockProcessorWhile(() => log.push("blocker"));
      });
    });
    const { engine, storage } = host(processor);
    await deliver(engine.processBatch(batch([event(1)])));
    expect(processor.log).toEqual(["count@1!", "blocker"]);
    expect(storage.outbox.map(({ payload }) => payload)).toEqual([{ offset: 2 }]);
  });

  it("fails the batch for an append that failed unseen, and not for one whose failure was handled", async () => {
    const shut = { ...memoryStream(), append: () => Promise.reject(new Error("the log is away")) };
    const unseen = host(new Recorder(({ append }) => void append({ type: "counted", payload: { offset: 1 } })), { stream: shut });
    await expect(deliver(unseen.engine.processBatch(batch([event(1)])))).rejects.toThrow("the log is away");
    expect(unseen.storage.writes).toBe(0);

    const handled = host(
      new Recorder(({ append }, log) => void append({ type: "counted", payload: { offset: 1 } }).catch(() => log.push("handled"))),
      { stream: shut },
    );
    await deliver(handled.engine.processBatch(batch([event(1)])));
    expect(handled.storage.writes).toBe(1);
  });

  it("runs batches in one serial chain, even when the second is asked for while the first still blocks", async () => {
    const slow = gate();
    const processor = new Recorder(({ event, blockProcessorWhile }) => {
      if (event?.offset === 1) blockProcessorWhile(() => slow.promise);
    });
    const { engine } = host(processor);
    const first = deliver(engine.processBatch(batch([event(1)], { atHead: false })));
    const second = deliver(engine.processBatch(batch([event(2)])));
    await turnOfTheLoop();
    expect(processor.log).toEqual(["count@1"]);
    slow.resolve();
    await Promise.all([first, second]);
    expect(processor.log).toEqual(["count@1", "count@2!"]);
    expect((await engine.snapshot()).state).toEqual({ seen: [1, 2] });
  });
});

describe("background work", () => {
  it("[iterate-64] reports a failure of background work and commits the batch; the next batch is fine", async () => {
    const processor = new Recorder(({ event, runInBackground }) => {
      if (event?.offset === 1)
        runInBackground(() => Promise.reject(Object.assign(new Error("no such door"), { code: "NOT_FOUND" })));
    });
    const { engine, storage, problems } = host(processor);

    const [checkpoint, settled] = await deliver(engine.processBatch(batch([event(1)])));
    expect(checkpoint).toMatchObject({ kind: "checkpoint", offset: 1, state: { seen: [1] }, backgroundCount: 1 });
    expect(settled).toEqual({ kind: "settled", failures: [{ offset: 1, code: "NOT_FOUND", message: "no such door" }] });
    expect(problems).toMatchObject([{ kind: "background-failed", offset: 1, slug: "recorder" }]);

    await deliver(engine.processBatch(batch([event(2)])));
    expect(storage.checkpoint).toEqual({ version: "1", offset: 2, state: { seen: [1, 2] } });
  });

  it("starts background work only after the checkpoint is kept, lets it overtake, and settles when works of works are done", async () => {
    const slow = gate();
    const storage = memoryStorage<{ seen: number[] }>();
    const processor = new Recorder(({ event, runInBackground, append }, log) => {
      if (event?.offset !== 1) return;
      runInBackground(async () => {
        log.push(`started with ${storage.writes} write`);
        await slow.promise;
        runInBackground(async () => {
          await append({ type: "counted", payload: { offset: 1 } });
          log.push("appended");
          runInBackground(async () => {
            await turnOfTheLoop();
            log.push("last");
          });
        });
      });
    });
    const { engine, stream } = host(processor, { storage });

    const answers = engine.processBatch(batch([event(1)]));
    expect((await answers.next()).value).toMatchObject({ kind: "checkpoint" });
    expect(processor.log).toEqual(["count@1!"]);
    const settled = answers.next();
    await deliver(engine.processBatch(batch([event(2)])));
    expect(processor.log).toEqual(["count@1!", "started with 1 write", "count@2!"]);
    slow.resolve();
    expect((await settled).value).toEqual({ kind: "settled", failures: [] });
    expect(processor.log.slice(-2)).toEqual(["appended", "last"]);
    expect(stream.events[0]?.source.processor).toEqual({
      slug: "recorder",
      version: "1",
      whileProcessing: { offset: 1, type: "count" },
    });
  });

  it("starts no background work of a failed batch", async () => {
    let fail = true;
    const processor = new Recorder(({ runInBackground, blockProcessorWhile }, log) => {
      runInBackground(() => log.push("background"));
      blockProcessorWhile(() => {
        if (fail) throw new Error("not yet");
      });
    });
    const { engine } = host(processor);
    await expect(deliver(engine.processBatch(batch([event(1)])))).rejects.toThrow("not yet");
    fail = false;
    await deliver(engine.processBatch(batch([event(1)])));
    expect(processor.log).toEqual(["count@1!", "count@1!", "background"]);
  });

  it("refuses emit, blockers and more background work once their time is over", async () => {
    let late: ProcessEventArgs<Contract> | undefined;
    const { engine } = host(new Recorder((args) => void (late = args)));
    await deliver(engine.processBatch(batch([event(1)])));
    expect(() => late?.emit({ type: "counted", payload: { offset: 1 } })).toThrow(/emit was called after its event was processed/);
    expect(() => late?.blockProcessorWhile(() => undefined)).toThrow(/blockProcessorWhile was called after/);
    expect(() => late?.runInBackground(() => undefined)).toThrow(/runInBackground was called after/);
  });
});

describe("failures", () => {
  it("[iterate-65] writes one checkpoint over a throwing reduce: the cursor covers the event, the state lacks it, it is processed", async () => {
    const processor = new Recorder(undefined, ({ event }) => {
      if (event.offset === 3) throw new Error("cannot count to three");
    });
    const { engine, storage, problems } = host(processor);
    await deliver(engine.processBatch(batch([event(1), event(2), event(3)])));
    expect(storage.writes).toBe(1);
    expect(storage.checkpoint).toEqual({ version: "1", offset: 3, state: { seen: [1, 2] } });
    expect(processor.log).toEqual(["count@1", "count@2", "count@3!"]);
    expect(problems).toMatchObject([{ kind: "reduce-failed", offset: 3, type: "count" }]);
  });

  it("tells of what another version leaves out of the state, too, when it folds the log again", async () => {
    const processor = new Recorder(undefined, ({ event }) => {
      if (event.offset === 2) throw new Error("cannot count to two");
    });
    const stream = memoryStream(Array.from({ length: 3 }, () => ({ type: "count", payload: {} })));
    const { engine, storage, problems } = host(processor, { stream });
    await storage.write({ version: "0", offset: 3, state: { seen: [] } }, []);
    expect(await engine.snapshot()).toEqual({ offset: 3, state: { seen: [1, 3] } });
    expect(problems).toMatchObject([{ kind: "reduce-failed", offset: 2, type: "count" }]);
  });

  it("takes a promise from reduce for a failure of reduce", async () => {
    class Late extends Recorder {
      override reduce(): never {
        return Promise.reject(new Error("later")) as never;
      }
    }
    const { engine, storage, problems } = host(new Late());
    await deliver(engine.processBatch(batch([event(1)])));
    expect(storage.checkpoint?.state).toEqual({ seen: [] });
    expect(problems[0]?.error).toMatchObject({
      code: "INVALID_INPUT",
      message: expect.stringContaining("must be synchronous") as string,
    });
  });

  it.each([
    ["a blocker", ({ blockProcessorWhile }: ProcessEventArgs<Contract>, fail: () => void) => blockProcessorWhile(fail)],
    ["processEvent", (_args: ProcessEventArgs<Contract>, fail: () => void) => fail()],
    ["an awaited promise", async (_args: ProcessEventArgs<Contract>, fail: () => void) => (await turnOfTheLoop(), fail())],
  ])(
    "[iterate-66] keeps nothing when %s of the last event throws; the whole batch is done again, then written once",
    async (_name, act) => {
      let failures = 1;
      const processor = new Recorder((args) =>
        act(args, () => {
          args.emit({ type: "counted", payload: { offset: args.event?.offset ?? 0 } });
          if (args.event?.offset === 2 && failures-- > 0) throw new Error("the door is shut");
        }),
      );
      const { engine, storage } = host(processor);
      const events = batch([event(1), event(2)]);

      await expect(deliver(engine.processBatch(events))).rejects.toThrow("the door is shut");
      expect(storage).toMatchObject({ writes: 0, checkpoint: null, outbox: [] });

      await deliver(engine.processBatch(events));
      expect(storage.writes).toBe(1);
      expect(storage.checkpoint?.state).toEqual({ seen: [1, 2] });
      expect(processor.log).toEqual(["count@1", "count@2!", "count@1", "count@2!"]);
      expect(storage.outbox.map(({ payload }) => payload)).toEqual([{ offset: 1 }, { offset: 2 }]);
    },
  );

  it("counts an event that the loop limit stopped as done, reduced like every other", async () => {
    const processor = new Recorder(({ blockProcessorWhile }) =>
      blockProcessorWhile(async () => {
        throw codedError("LOOP_LIMIT", "the chain is 9 deep");
      }),
    );
    const { engine, storage } = host(processor);
    await deliver(engine.processBatch(batch([event(1), event(2)])));
    expect(storage.checkpoint).toMatchObject({ offset: 2, state: { seen: [1, 2] } });
    expect(processor.log).toEqual(["count@1", "count@2!"]);
  });

  it("forgets what a failed batch did to the state in place", async () => {
    let fail = true;
    const processor = new Recorder(({ state }) => {
      state.seen.push(99);
      if (fail) throw new Error("half done");
    });
    const { engine, storage } = host(processor, {
      storage: memoryStorage({ version: "1", offset: 0, state: { seen: [] as number[] } }),
    });
    await expect(deliver(engine.processBatch(batch([poke(1)])))).rejects.toThrow("half done");
    fail = false;
    expect((await engine.snapshot()).state).toEqual({ seen: [] });
    expect(storage.writes).toBe(0);
  });

  it("reads its checkpoint again after a write that threw, whichever way it went", async () => {
    const storage = memoryStorage<{ seen: number[] }>();
    let cut = true;
    const cutAfterWrite: typeof storage = Object.assign(Object.create(storage) as typeof storage, {
      write: async (...args: Parameters<typeof storage.write>) => {
        await storage.write(...args);
        if (cut) throw new Error("connection cut after the commit");
      },
    });
    const { engine } = host(new Recorder(), { storage: cutAfterWrite });
    await expect(deliver(engine.processBatch(batch([event(1)])))).rejects.toThrow("connection cut");
    cut = false;
    await deliver(engine.processBatch(batch([event(1), event(2)])));
    expect(storage.checkpoint).toEqual({ version: "1", offset: 2, state: { seen: [1, 2] } });
  });
});

describe("caught up", () => {
  const malformed = event(9, "count", { by: "many" });
  it.each([
    ["an event and noise at head", batch([event(1), event(2, "noise")]), ["count@1!"]],
    ["only noise at head", batch([event(1, "noise"), event(2, "noise")]), ["head!"]],
    ["a last event with a malformed payload", batch([event(8), malformed]), ["count@8!"]],
    ["nothing at head", batch([], { after: 0, through: 0 }), ["head!"]],
    ["events below the head", batch([event(1), event(2)], { atHead: false }), ["count@1", "count@2"]],
    ["a last ephemeral event", batch([event(1), poke(2)]), ["count@1", "poke@2!"]],
    [
      "500 events",
      batch(Array.from({ length: 500 }, (_, index) => event(index + 1))),
      [...Array.from({ length: 499 }, (_, index) => `count@${index + 1}`), "count@500!"],
    ],
  ])("[iterate-67] says caughtUp exactly once for %s", async (_name, input, expected) => {
    const processor = new Recorder();
    const { engine } = host(processor);
    await deliver(engine.processBatch(input));
    expect(processor.log).toEqual(expected);
  });

  it("[iterate-67] says it once for a log of exactly one full page", async () => {
    const processor = new Recorder();
    const stream = memoryStream(Array.from({ length: 500 }, () => ({ type: "count" })));
    const { engine, storage } = host(processor, { stream });
    await settle(engine, stream, storage, { batchSize: 500 });
    expect(processor.log.filter((line) => line.endsWith("!"))).toEqual(["count@500!"]);
  });

  it("lets the call without an event emit, and keeps the emit though the cursor stands still", async () => {
    const processor = new Recorder(({ event, emit }) => {
      if (event === null) emit({ type: "counted", payload: { offset: 0 } });
    });
    const { engine, storage } = host(processor);
    await deliver(engine.processBatch(batch([], { after: 0, through: 0 })));
    expect(storage.outbox).toEqual([
      { type: "counted", payload: { offset: 0 }, source: { processor: { slug: "recorder", version: "1" } } },
    ]);
  });
});

describe("payloads", () => {
  it("[iterate-68] neither reduces nor processes a malformed payload; an absent one is checked as {}", async () => {
    const payloads: unknown[] = [];
    const processor = new Recorder(({ event }) => payloads.push(event?.payload));
    const { engine, storage, problems } = host(processor);
    await deliver(
      engine.processBatch(
        batch([
          event(1, "count", { by: "many" }),
          event(2, "count", { by: 3, extra: 1 }),
          committedEvent({ type: "count" }, { offset: 3 }),
        ]),
      ),
    );
    expect(payloads).toEqual([{ by: 3 }, { by: 1 }]);
    expect(storage.checkpoint).toEqual({ version: "1", offset: 3, state: { seen: [2, 3] } });
    expect(problems).toMatchObject([
      { kind: "malformed-payload", offset: 1, type: "count", error: { message: expect.stringContaining("by: ") as string } },
    ]);
  });
});

describe("another version", () => {
  const inputs = [{ type: "count" }, { type: "noise" }, { type: "count" }];
  const old = { version: "1", offset: 3, state: { seen: [777] } };

  it.each(["a batch", "a snapshot"])(
    "[iterate-69] folds again through the old cursor without effects when %s comes first, then handles the new event once",
    async (first) => {
      const stream = memoryStream([...inputs, { type: "count" }]);
      const storage = memoryStorage(old);
      const processor = new Recorder(
        ({ event, emit }) => emit({ type: "counted", payload: { offset: event?.offset ?? 0 } }),
        undefined,
        "2",
      );
      const { engine } = host(processor, { stream, storage });

      if (first === "a snapshot") {
        expect(await engine.snapshot()).toEqual({ offset: 3, state: { seen: [1, 3] } });
        expect(storage.writes).toBe(0);
      }
      await deliver(engine.processBatch(batch([event(4)])));
      expect(processor.log).toEqual(["count@4!"]);
      expect(storage.checkpoint).toEqual({ version: "2", offset: 4, state: { seen: [1, 3, 4] } });
      expect(storage.outbox.map(({ payload }) => payload)).toEqual([{ offset: 4 }]);
    },
  );

  it("keeps the new version's state although no new event came", async () => {
    const storage = memoryStorage(old);
    const { engine } = host(new Recorder(undefined, undefined, "2"), { stream: memoryStream(inputs), storage });
    await deliver(engine.processBatch(batch([], { after: 3, through: 3, atHead: false })));
    expect(storage.checkpoint).toEqual({ version: "2", offset: 3, state: { seen: [1, 3] } });
  });
});

describe("gaps", () => {
  it("[iterate-70] heals durable events from the log in order before the push, and delivers the push's ephemerals", async () => {
    const stream = memoryStream([{ type: "count" }, { type: "count" }, { type: "noise" }, { type: "count" }, { type: "count" }]);
    const processor = new Recorder();
    const { engine, storage } = host(processor, { stream });
    await deliver(engine.processBatch(batch([event(1)], { atHead: false })));
    await deliver(engine.processBatch(batch([event(5), poke(6)], { after: 4 })));
    expect(processor.log).toEqual(["count@1", "count@2", "count@4", "count@5", "poke@6!"]);
    expect(storage.writes).toBe(2);
    expect(storage.checkpoint?.state).toEqual({ seen: [1, 2, 4, 5] });
  });

  it("folds a durable event once however often it is pushed, and never moves the cursor back", async () => {
    const processor = new Recorder();
    const { engine, storage } = host(processor);
    await deliver(engine.processBatch(batch([event(1), event(2)], { atHead: false })));
    await deliver(engine.processBatch(batch([event(1), poke(2)], { atHead: false })));
    await deliver(engine.processBatch(batch([event(2), event(3)], { after: 1, atHead: false })));
    expect(processor.log).toEqual(["count@1", "count@2", "poke@2", "count@3"]);
    expect(storage.checkpoint).toEqual({ version: "1", offset: 3, state: { seen: [1, 2, 3] } });
  });

  it("writes nothing for a batch of ephemeral events alone", async () => {
    const processor = new Recorder();
    const { engine, storage } = host(processor);
    const [checkpoint] = await deliver(engine.processBatch(batch([poke(1), poke(2)])));
    expect(checkpoint).toMatchObject({ kind: "checkpoint", emits: [] });
    expect(storage.writes).toBe(0);
    await deliver(engine.processBatch(batch([event(3)])));
    expect(processor.log).toEqual(["poke@1", "poke@2!", "count@3!"]);
  });

  it("shows an ephemeral event to the processor and never folds it", async () => {
    const processor = new Recorder();
    const { engine } = host(processor);
    await deliver(engine.processBatch(batch([event(1), committedEvent({ type: "count" }, { offset: 2, ephemeral: true })])));
    expect(processor.log).toEqual(["count@1", "count@2!"]);
    expect((await engine.snapshot()).state).toEqual({ seen: [1] });
  });

  it("refuses a log that makes no progress rather than reading for ever", async () => {
    const stream = memoryStream();
    const stuck = { ...stream, readEvents: async () => ({ events: [], scannedThroughOffset: 0, atHead: false }) };
    const { engine } = host(new Recorder(), { stream: stuck });
    await expect(deliver(engine.processBatch(batch([event(9)])))).rejects.toMatchObject({ code: "INTERNAL" });
  });

  it.each([
    ["out of order", { events: [event(2), event(1)], range: { after: 0, through: 2 }, atHead: true }],
    ["below their range", { events: [event(1)], range: { after: 1, through: 2 }, atHead: true }],
    ["beyond their range", { events: [event(3)], range: { after: 1, through: 2 }, atHead: true }],
    ["in a range that ends before it starts", { events: [], range: { after: 3, through: 2 }, atHead: true }],
  ])("refuses events %s", async (_name, input) => {
    await expect(deliver(host(new Recorder()).engine.processBatch(input))).rejects.toMatchObject({ code: "INVALID_INPUT" });
  });
});

describe("the end of a batch", () => {
  class Closing extends Recorder {
    override processBatchEnd({ state, previousState, delivery, emit }: ProcessBatchEndArgs<Contract>) {
      this.log.push(`end ${previousState.seen.length}→${state.seen.length}${delivery.caughtUp ? "!" : ""}`);
      emit({ type: "counted", payload: { offset: state.seen.length } });
    }
  }

  it("calls processBatchEnd once with the final state, and its emits come last", async () => {
    const processor = new Closing(({ event, emit }) => emit({ type: "counted", payload: { offset: -(event?.offset ?? 0) } }));
    const { engine, storage } = host(processor);
    await deliver(engine.processBatch(batch([event(1), event(2)])));
    expect(processor.log).toEqual(["count@1", "count@2!", "end 0→2!"]);
    expect(storage.outbox.map(({ payload }) => payload)).toEqual([{ offset: -1 }, { offset: -2 }, { offset: 2 }]);
  });

  it("does not call it when nothing was processed", async () => {
    const processor = new Closing();
    await deliver(host(processor).engine.processBatch(batch([event(1, "noise")], { atHead: false })));
    expect(processor.log).toEqual([]);
  });
});

describe("waiting for an offset", () => {
  function manualTimers() {
    const due: { callback: () => void; cancelled: boolean; delayMs: number }[] = [];
    const timers: Timers = {
      after: (delayMs, callback) => {
        const timer = { callback, cancelled: false, delayMs };
        due.push(timer);
        return () => void (timer.cancelled = true);
      },
    };
    return { timers, due };
  }

  it("[iterate-74] removes a waiter whose time is over and leaves the others", async () => {
    const { timers, due } = manualTimers();
    const engine = new ProcessorEngine(new Recorder(), {
      stream: memoryStream(),
      storage: memoryStorage<{ seen: number[] }>(),
      timers,
    });
    const short = engine.waitUntilProcessed({ offset: 2, timeoutMs: 5 });
    const long = engine.waitUntilProcessed({ offset: 2 });
    expect(due.map(({ delayMs }) => delayMs)).toEqual([5, 10_000]);
    due[0]?.callback();
    await expect(short).rejects.toMatchObject({ code: "WAIT_TIMEOUT", data: { offset: 2, timeoutMs: 5 } });
    await deliver(engine.processBatch(batch([event(1), event(2)])));
    await expect(long).resolves.toEqual({ offset: 2 });
    expect(due[1]?.cancelled).toBe(true);
    await expect(engine.waitUntilProcessed({ offset: 1 })).resolves.toEqual({ offset: 2 });
    expect(due).toHaveLength(2);
  });

  it("[iterate-74] holds no waiter that was answered or whose time is over", async () => {
    const { timers, due } = manualTimers();
    const waiters = new OffsetWaiters(timers);
    const waits = [waiters.wait(3, 1), waiters.wait(2), waiters.wait(500_000, 500_000)].map((wait) =>
      wait.catch((error: unknown) => (error as { code: string }).code),
    );
    expect(due.map(({ delayMs }) => delayMs)).toEqual([1, 10_000, 120_000]);
    due[0]?.callback();
    waiters.reached(2);
    expect(waiters.size).toBe(1);
    due[2]?.callback();
    expect(waiters.size).toBe(0);
    expect(await Promise.all(waits)).toEqual(["WAIT_TIMEOUT", 2, "WAIT_TIMEOUT"]);
  });

  it("learns from the checkpoint how far it has come", async () => {
    const { timers } = manualTimers();
    const engine = new ProcessorEngine(new Recorder(), {
      stream: memoryStream(),
      storage: memoryStorage({ version: "1", offset: 7, state: { seen: [] as number[] } }),
      timers,
    });
    await expect(engine.waitUntilProcessed({ offset: 7 })).resolves.toEqual({ offset: 7 });
  });
});
