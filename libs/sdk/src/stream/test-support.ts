/** `iterate/stream/test-support`: everything a processor's own tests need, without a platform. */
export { committedEvent } from "./testing/committed-event.js";
export type { CommittedEventFields } from "./testing/committed-event.js";
export { memoryStorage } from "./testing/memory-storage.js";
export type { MemoryStorage } from "./testing/memory-storage.js";
export { memoryStream } from "./testing/memory-stream.js";
export type { MemoryStream } from "./testing/memory-stream.js";
export { reduceProcessor } from "./testing/reduce-processor.js";
export { settle } from "./testing/settle.js";
export type { SettleOptions } from "./testing/settle.js";
