import { StreamProcessorDurableObject } from "iterate/sdk";
import { defineProcessorContract, StreamProcessor, type ProcessEventArgs, type ReduceArgs } from "iterate/stream/processor";
import { z } from "zod";

const Counter = defineProcessorContract({
  slug: "counter",
  version: "1",
  description: "Counts greetings and celebrates every tenth.",
  stateSchema: z.object({ greetings: z.int().default(0) }),
  consumes: ["events.example.com/hello/greeted"],
  emits: ["events.example.com/hello/celebrated"],
});

class CounterProcessor extends StreamProcessor<typeof Counter> {
  override readonly contract = Counter;

  override reduce({ state }: ReduceArgs<typeof Counter>) {
    return { greetings: state.greetings + 1 };
  }

  override processEvent({ event, state, emit }: ProcessEventArgs<typeof Counter>) {
    if (event !== null && state.greetings % 10 === 0)
      emit({ type: "events.example.com/hello/celebrated", payload: { greetings: state.greetings } });
  }
}

export class CounterDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new CounterProcessor();
}
