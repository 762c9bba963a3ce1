/** Two processors to time: one answers every event, one every tenth. */
import { StreamProcessorDurableObject } from "iterate/sdk";
import { defineProcessorContract, StreamProcessor, type ProcessEventArgs, type ReduceArgs } from "iterate/stream/processor";
import { z } from "zod";

const Ticks = defineProcessorContract({
  slug: "ticks",
  version: "1",
  description: "Counts ticks and answers every so many.",
  stateSchema: z.object({ count: z.int().default(0) }),
  consumes: ["events.example.com/bench/tick"],
  emits: ["events.example.com/bench/tock"],
});

class TicksProcessor extends StreamProcessor<typeof Ticks> {
  override readonly contract = Ticks;
  readonly #every: number;

  constructor(every: number) {
    super();
    this.#every = every;
  }

  override reduce({ state }: ReduceArgs<typeof Ticks>) {
    return { count: state.count + 1 };
  }

  override processEvent({ event, state, emit }: ProcessEventArgs<typeof Ticks>) {
    if (event !== null && state.count % this.#every === 0)
      emit({ type: "events.example.com/bench/tock", payload: { offset: event.offset } });
  }
}

export class EchoDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new TicksProcessor(1);
}

export class TenthDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new TicksProcessor(10);
}
