/** The facet that hosts one processor. The platform hands it a batch with its checkpoint and keeps what it answers. */
import { z } from "zod";
import type { EventsPage, ReadEventsArgs } from "../api/context.js";
import type { AnyProcessorContract, ProcessorState } from "../stream/contract.js";
import { ProcessorEngine } from "../stream/engine.js";
import type { BatchAnswer, EventBatch, ProcessorCheckpoint } from "../stream/engine-ports.js";
import type { EventInput, StreamEvent } from "../stream/event.js";
import type { StreamProcessor } from "../stream/stream-processor.js";
import { FacetDurableObject } from "./facet.js";
import { currentInvocation } from "./isolate.js";
import { openItx } from "./itx.js";

export interface EventBatchInput extends EventBatch {
  /** The context whose log the events are from. */
  readonly contextPath: string;
  /** Name of the facet and of the subscription that feeds it. */
  readonly name: string;
  readonly checkpoint: ProcessorCheckpoint | null;
}

/** How the processor reaches its log; without one, through `itx` of the invocation. */
export interface EventBatchHost {
  readonly append: (events: readonly EventInput[]) => Promise<StreamEvent[]>;
  readonly readEvents: (args: ReadEventsArgs) => Promise<EventsPage>;
}

/** What a processor says of itself. */
export interface ProcessorDescription {
  readonly slug: string;
  readonly version: string;
  readonly description: string;
  readonly consumes: readonly string[] | "*";
  readonly emits: readonly string[];
  /** JSON Schema of the state. */
  readonly stateSchema: unknown;
  /** JSON Schema of each known payload as a writer may send it, by type. */
  readonly eventSchemas: Readonly<Record<string, unknown>>;
}

export abstract class StreamProcessorDurableObject extends FacetDurableObject {
  // A processor takes its own events only, so no contract stands for all of them: which one it is, its host need not know.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  abstract readonly processor: StreamProcessor<any>;

  /**
   * Called by the platform alone: runs the batch once and answers `checkpoint`, then `settled`. Throws what the processor threw; then
   * nothing may be kept of the batch.
   */
  async *processEventBatch(
    input: EventBatchInput,
    host: EventBatchHost = itxHost(input.contextPath),
  ): AsyncGenerator<BatchAnswer, void> {
    const engine = new ProcessorEngine(this.processor as StreamProcessor, {
      stream: host,
      // The caller holds the checkpoint and keeps the one that is answered.
      storage: {
        read: async () => input.checkpoint as ProcessorCheckpoint<ProcessorState<AnyProcessorContract>> | null,
        write: async () => undefined,
      },
    });
    yield* engine.processBatch(input);
  }

  /** The contract as data. */
  describe(): ProcessorDescription {
    const { slug, version, description, consumes, emits, stateSchema, schemas } = (this.processor as StreamProcessor).contract;
    const jsonSchema = (schema: z.ZodType, io: "input" | "output"): unknown =>
      z.toJSONSchema(schema, { io, unrepresentable: "any" });
    return {
      slug,
      version,
      description,
      consumes,
      emits,
      stateSchema: jsonSchema(stateSchema, "output"),
      eventSchemas: Object.fromEntries([...schemas].map(([type, schema]) => [type, jsonSchema(schema, "input")])),
    };
  }
}

function itxHost(contextPath: string): EventBatchHost {
  const itx = openItx(currentInvocation().itx, contextPath);
  return { append: (events) => itx.append(...events), readEvents: (args) => itx.readEvents(args) };
}
