/** Drives an engine over a memory log until nothing is left to do. */
import { codedError } from "../../lib/coded-error.js";
import type { AnyProcessorContract, ProcessorState } from "../contract.js";
import type { ProcessorEngine } from "../engine.js";
import type { MemoryStorage } from "./memory-storage.js";
import type { MemoryStream } from "./memory-stream.js";

export interface SettleOptions {
  /** Events per batch, default 100. */
  readonly batchSize?: number;
  /** Batches after which a processor that keeps answering itself is given up, default 1,000. */
  readonly maxBatches?: number;
}

/**
 * Delivers the log in batches, appends what was emitted, lets background work end, and goes on until a batch at the head leaves nothing
 * new. Answers the snapshot then. Throws what a batch throws, and LOOP_LIMIT when it does not come to rest.
 */
export async function settle<C extends AnyProcessorContract>(
  engine: ProcessorEngine<C>,
  stream: MemoryStream,
  storage: MemoryStorage<ProcessorState<C>>,
  { batchSize = 100, maxBatches = 1000 }: SettleOptions = {},
): Promise<{ readonly offset: number; readonly state: ProcessorState<C> }> {
  for (let batches = 0; batches < maxBatches; batches += 1) {
    const { offset: after } = await engine.snapshot();
    const { events, scannedThroughOffset: through, atHead } = await stream.readEvents({ afterOffset: after, limit: batchSize });
    for await (const answer of engine.processBatch({ events, range: { after, through }, atHead })) {
      if (answer.kind === "checkpoint") await stream.append(storage.takeOutbox());
    }
    if (atHead && stream.events.length === through) return engine.snapshot();
  }
  throw codedError("LOOP_LIMIT", `the processor still writes after ${maxBatches} batches; it answers its own events`, {
    maxBatches,
  });
}
