/** The contracts of the platform's surfaces: `itx` in project code and the session protocol of `/api`. */
export type * from "../stream/event.js";
export type * from "./archive.js";
export type * from "./context.js";
export type * from "./describe.js";
export type * from "./explain.js";
export * from "./itx.js";
export * from "./session.js";
export type * from "./telemetry.js";
export * from "./webhook.js";
