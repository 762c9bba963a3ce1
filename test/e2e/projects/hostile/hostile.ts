/** Four processors that each do what no processor may. */
import { StreamProcessorDurableObject } from "iterate/sdk";
import { defineProcessorContract, StreamProcessor, type ProcessEventArgs } from "iterate/stream/processor";
import { z } from "zod";

const contractOf = (slug: string) =>
  defineProcessorContract({
    slug,
    version: "1",
    description: "Does what it may not.",
    stateSchema: z.object({}),
    consumes: ["events.example.com/task/added"],
    emits: [],
  });

type Contract = ReturnType<typeof contractOf>;

abstract class Hostile extends StreamProcessor<Contract> {
  override readonly contract: Contract;

  constructor(slug: string) {
    super();
    this.contract = contractOf(slug);
  }

  override reduce() {
    return {};
  }
}

class Loops extends Hostile {
  override processEvent({ event }: ProcessEventArgs<Contract>) {
    if (event !== null) for (;;);
  }
}

class Throws extends Hostile {
  override processEvent({ event, blockProcessorWhile }: ProcessEventArgs<Contract>) {
    if (event !== null) {
      blockProcessorWhile(async () => {
        throw new TypeError("the task has no owner");
      });
    }
  }
}

class Bombs extends Hostile {
  override processEvent({ event }: ProcessEventArgs<Contract>) {
    if (event === null) return;
    const kept: unknown[] = [];
    for (;;) kept.push(new Array(1_000_000).fill(kept.length));
  }
}

class Dials extends Hostile {
  override processEvent({ event, blockProcessorWhile }: ProcessEventArgs<Contract>) {
    if (event !== null) {
      blockProcessorWhile(async () => {
        const response = await fetch("http://127.0.0.1:7432/");
        console.error(`the network answered ${response.status}`);
        if (!response.ok) throw new Error(await response.text());
      });
    }
  }
}

export class LoopsDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new Loops("loops");
}
export class ThrowsDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new Throws("throws");
}
export class BombsDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new Bombs("bombs");
}
export class DialsDurableObject extends StreamProcessorDurableObject {
  override readonly processor = new Dials("dials");
}
