/** Runs one batch of events through a processor class of the project. */
import { construct, exported } from "./project-class.js";
import type { InvocationHead } from "./head.js";

interface ProcessorClassInstance {
  processEventBatch(input: unknown): AsyncIterable<unknown>;
}

/** The frames that the SDK's engine answers: a checkpoint, then settled once background work is done. */
export async function* processBatch(head: InvocationHead, request: Request): AsyncGenerator<unknown> {
  const input: unknown = await request.json();
  const instance = construct(exported(head.module ?? "", head.className ?? "")) as Partial<ProcessorClassInstance>;
  if (typeof instance.processEventBatch !== "function") {
    throw Object.assign(
      new Error(`${head.className} of ${head.module} is no StreamProcessorDurableObject: it has no processEventBatch.`),
      { code: "NOT_A_METHOD" },
    );
  }
  yield* instance.processEventBatch(input);
}
