/** From a subscription's target to what runs its batches, at the time of delivery: a publication in between needs no new row. */
import { codedError } from "iterate/lib";
import type { BatchHost } from "./batch.js";
import type { ContextKey } from "./contract.js";
import type { Target } from "./target.js";

/** Finds native processors by name. */
export interface NativeProcessors {
  host(name: string, context: ContextKey): BatchHost | undefined;
}

/** Finds the project's published classes. */
export interface PublishedClasses {
  /** Undefined when nothing is published that holds the class. Throws UNAVAILABLE when that cannot be known now. */
  host(target: Extract<Target, { kind: "facet" }>, owner: string): Promise<BatchHost | undefined>;
}

export class Hosts {
  readonly #native: NativeProcessors;
  readonly #published: PublishedClasses;

  constructor(native: NativeProcessors, published: PublishedClasses) {
    this.#native = native;
    this.#published = published;
  }

  /** @throws NO_FACET when nothing answers to the target now; UNAVAILABLE when that cannot be known. */
  async resolve(target: Target, context: ContextKey): Promise<BatchHost> {
    const host = await this.#find(target, context);
    if (host === undefined)
      throw codedError("NO_FACET", `${describe(target)} answers to nothing; publish it or configure the subscription anew`);
    return host;
  }

  async #find(target: Target, context: ContextKey): Promise<BatchHost | undefined> {
    switch (target.kind) {
      case "native":
        return this.#native.host(target.name, context);
      case "facet":
        return await this.#published.host(target, context.owner);
      case "unknown":
        return undefined;
    }
  }
}

function describe(target: Target): string {
  switch (target.kind) {
    case "native":
      return `the processor ${JSON.stringify(target.name)}`;
    case "facet":
      return `the class ${target.className} of ${target.module}`;
    case "unknown":
      return "the target";
  }
}
