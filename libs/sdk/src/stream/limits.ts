/** Published limits that project code meets. A deployment may set lower ones at the append boundary, never higher. */

/** Largest JSON text of one event's payload and metadata together, in UTF-8 bytes. */
export const maxEventBytes = 8 * 1024 * 1024;

/** Most events in one append, and most buffered emits of one batch. */
export const maxBatchEvents = 1000;

/** Largest JSON text of all events in one append, and of all buffered emits of one batch, in UTF-8 bytes. */
export const maxBatchBytes = 16 * 1024 * 1024;

export const maxTypeBytes = 256;
export const maxIdempotencyKeyBytes = 512;

/** Largest JSON text of a processor's state: a 2 MiB cell less room for the row's other columns. */
export const maxStateBytes = 2 * 1024 * 1024 - 4096;
