/** `iterate/node`: a session with a deployment from a Node program. */
export { connectIterate } from "./connect-iterate.js";
export type { ConnectIterateOptions, IterateConnection } from "./connect-iterate.js";
export type * from "../api/context.js";
export type * from "../api/session.js";
export type * from "../api/telemetry.js";
export type * from "../api/webhook.js";
export type * from "../stream/event.js";
