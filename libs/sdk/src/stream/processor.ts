/** `iterate/stream/processor`: define a processor, and the engine that runs it. */
export { checkPayload, consumesEvent, defineProcessorContract, initialState } from "./contract.js";
export type {
  AnyProcessorContract,
  CheckedEvent,
  CheckedPayload,
  ConsumedEvent,
  EmittedEventInput,
  EventSchemas,
  ProcessorContract,
  ProcessorContractDefinition,
  ProcessorState,
} from "./contract.js";
export { ProcessorEngine } from "./engine.js";
export type { ProcessorEngineHost } from "./engine.js";
export type * from "./engine-ports.js";
export type * from "./event.js";
export { eventTypeProblem, platformTypePrefix } from "./event-type.js";
export { maxBatchBytes, maxBatchEvents, maxEventBytes, maxIdempotencyKeyBytes, maxStateBytes, maxTypeBytes } from "./limits.js";
export { StreamProcessor } from "./stream-processor.js";
export type { Delivery, ProcessBatchEndArgs, ProcessEventArgs, ProcessorActions, ReduceArgs } from "./stream-processor.js";
