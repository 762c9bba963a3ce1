/** `iterate/sdk`: the classes that a project's modules export, and how their code reaches the platform. */
export { IterateConfigEntrypoint } from "./config-entrypoint.js";
export { FacetDurableObject } from "./facet.js";
export { StreamProcessorDurableObject } from "./stream-processor-durable-object.js";
export type { EventBatchHost, EventBatchInput, ProcessorDescription } from "./stream-processor-durable-object.js";
export type * from "../api/context.js";
export type { FacetHandle, FacetSnapshot, Itx, ItxFacets, WaitUntilProcessedArgs } from "../api/itx.js";
