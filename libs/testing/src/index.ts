/**
 * What tests import: real servers, faults between them and their clients, and waiting for facts.
 */
export { eventually, type EventuallyOptions } from "./eventually.js";
export { FaultProxy, type CutTrigger } from "./fault-proxy.js";
export { useNats, useTestDatabase } from "./fixture.js";
export { freePort } from "./free-port.js";
export { startNats, type NatsOptions, type TestNats } from "./nats.js";
export { type NatsUser } from "./nats-server.js";
export { findProgram, hasPrograms } from "./program.js";
export { durableSettings } from "./postgres-server.js";
export {
  startPostgres,
  startPrivatePostgres,
  type PrivatePostgres,
  type PrivatePostgresOptions,
  type TestDatabase,
  type TestPostgres,
} from "./postgres.js";
