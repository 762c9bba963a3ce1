/**
 * The one-machine stack as a function, for end-to-end tests and the demo.
 */
export { startStack, Stack, StackPortBusyError, rowsFrom, type StackOptions } from "./stack.js";
export { StateHeldError } from "./state.js";
export { type Listener, type Ports, type ServiceName } from "./ports.js";
export { type ServiceRow } from "./services.js";
export { exampleDeliveries, post, postAll, type Answer, type Delivery } from "./demo/deliveries.js";
export { pushFolder } from "./demo/git-push.js";
