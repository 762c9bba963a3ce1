/** Counts each delivery once in its state and emits one event for each: what a lost or repeated batch would show in. */
import { StreamProcessorDurableObject } from "iterate/sdk";
import { defineProcessorContract, StreamProcessor, type ProcessEventArgs, type ReduceArgs } from "iterate/stream/processor";
import { z } from "zod";

const Counter = defineProcessorContract({
  slug: "counter",
  version: "1",
  description: "Counts deliveries.",
  stateSchema: z.object({ count: z.int().default(0) }),
  consumes: ["events.iterate.com/github/webhook-received"],
  emits: ["events.example.com/counter/counted"],
});

class CounterProcessor extends StreamProcessor<typeof Counter> {
  override readonly contract = Counter;

  override reduce({ state }: ReduceArgs<typeof Counter>) {
    return { count: state.count + 1 };
  }

  override processEvent({ event, emit }: ProcessEventArgs<typeof Counter>) {
    if (event !== null) emit({ type: "events.example.com/counter/counted", payload: { offset: event.offset } });
  }
}

export class CounterDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new CounterProcessor();
}
