import { StreamProcessorDurableObject } from "iterate/sdk";
import { defineProcessorContract, StreamProcessor, type ReduceArgs } from "iterate/stream/processor";
import { z } from "zod";

const Good = defineProcessorContract({
  slug: "good",
  version: "1",
  description: "Counts tasks, whatever its neighbours do.",
  stateSchema: z.object({ count: z.int().default(0) }),
  consumes: ["events.example.com/task/added"],
  emits: [],
});

class GoodProcessor extends StreamProcessor<typeof Good> {
  override readonly contract = Good;

  override reduce({ state }: ReduceArgs<typeof Good>) {
    return { count: state.count + 1 };
  }
}

export class GoodDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new GoodProcessor();
}
