/**
 * The engine under random batch splits, repeats, gaps, failures and crashes: the state is the fold of the log, every event is processed
 * after its predecessors, and what was kept exists once.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineProcessorContract, ProcessorEngine, StreamProcessor } from "./processor.js";
import type { EventBatch, ProcessEventArgs, ReduceArgs } from "./processor.js";
import { memoryStorage, memoryStream, reduceProcessor, settle } from "./test-support.js";

const Contract = defineProcessorContract({
  slug: "fold",
  version: "1",
  description: "Folds the order of what it sees",
  stateSchema: z.object({ sum: z.number().default(0), last: z.number().default(0) }),
  events: { add: z.object({ value: z.number() }), added: z.object({ at: z.number() }) },
  consumes: ["add"],
  emits: ["added"],
});

/** Fails as told by a script, in a blocker, in processEvent or in reduce. */
class Fold extends StreamProcessor<typeof Contract> {
  readonly contract;
  readonly calls: number[] = [];
  failures: ("blocker" | "process" | null)[] = [];
  constructor(version = "1") {
    super();
    this.contract = { ...Contract, version };
  }
  override reduce({ event, state }: ReduceArgs<typeof Contract>) {
    return { sum: (state.sum * 31 + event.payload.value) % 1_000_003, last: event.offset };
  }
  override processEvent({ event, emit, blockProcessorWhile }: ProcessEventArgs<typeof Contract>) {
    if (event === null) return;
    this.calls.push(event.offset);
    const failure = this.failures.shift() ?? null;
    emit({ type: "added", payload: { at: event.offset } });
    if (failure === "process") throw new Error("process");
    blockProcessorWhile(() => {
      if (failure === "blocker") throw new Error("blocker");
    });
  }
}

const inputs = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ type: fc.constant("add"), payload: fc.record({ value: fc.integer({ min: 0, max: 1000 }) }) }),
    },
    { weight: 1, arbitrary: fc.constant({ type: "add", payload: { value: "malformed" } }) },
    { weight: 2, arbitrary: fc.constant({ type: "noise" }) },
  ),
  { maxLength: 30 },
);
/** A step sends a batch that starts `back` before or `skip` after where the engine stands, or replaces the engine as a crash would. */
const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant("batch" as const), size: fc.nat(6), back: fc.nat(4), skip: fc.nat(4) }) },
    { weight: 1, arbitrary: fc.constant({ kind: "crash" as const }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("upgrade" as const), version: fc.constantFrom("1", "2", "3") }) },
  ),
  { maxLength: 25 },
);
const failures = fc.array(fc.constantFrom(null, null, null, "blocker" as const, "process" as const), { maxLength: 20 });

describe("ProcessorEngine", () => {
  it("folds the log whatever way it is cut, repeated, healed, failed, restarted and upgraded", async () => {
    await fc.assert(
      fc.asyncProperty(inputs, steps, failures, async (log, script, fail) => {
        const stream = memoryStream(log);
        const storage = memoryStorage<{ sum: number; last: number }>();
        const engineOf = (processor: Fold) => new ProcessorEngine(processor, { stream, storage, report: () => undefined });
        let processor = new Fold();
        let engine = engineOf(processor);
        processor.failures = fail;
        const kept: unknown[] = [];

        for (const step of script) {
          if (step.kind !== "batch") {
            const next = new Fold(step.kind === "upgrade" ? step.version : processor.contract.version);
            next.failures = processor.failures;
            processor = next;
            engine = engineOf(processor);
            continue;
          }
          const at = (await engine.snapshot()).offset;
          const after = Math.max(0, Math.min(log.length, at - step.back + step.skip));
          const through = Math.min(log.length, after + step.size);
          const batch: EventBatch = {
            events: stream.events.slice(after, through),
            range: { after, through },
            atHead: through === log.length,
          };
          const before = { writes: storage.writes, from: processor.calls.length };
          try {
            for await (const answer of engine.processBatch(batch))
              if (answer.kind === "checkpoint") kept.push(...storage.takeOutbox());
          } catch {
            expect(storage.writes).toBe(before.writes);
            expect(storage.outbox).toEqual([]);
          }
          const calls = processor.calls.slice(before.from);
          expect(calls).toEqual([...calls].sort((a, b) => a - b));
          const { offset, state } = await engine.snapshot();
          expect(state).toEqual(reduceProcessor(new Fold(), stream.events.slice(0, offset)));
        }

        processor.failures = [];
        await settle(engine, stream, storage, { batchSize: 3 });
        const state = reduceProcessor(new Fold(), stream.events);
        expect((await engine.snapshot()).state).toEqual(state);
        const emitted = [...kept, ...stream.events.slice(log.length)].map(
          (event) => (event as { payload: { at: number } }).payload.at,
        );
        const good = stream.events.flatMap((event) =>
          event.type === "add" && typeof (event.payload as { value: unknown }).value === "number" ? [event.offset] : [],
        );
        expect(emitted).toEqual(good);
      }),
      { numRuns: 300 },
    );
  });
});
