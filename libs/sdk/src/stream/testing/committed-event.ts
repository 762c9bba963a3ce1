/** Events as a log would answer them, for tests that have no log. */
import type { EventInput, EventSource, StreamEvent } from "../event.js";

export interface CommittedEventFields {
  readonly offset?: number;
  readonly path?: string;
  readonly createdAt?: string;
  readonly source?: Partial<EventSource>;
  readonly ephemeral?: true;
}

/**
 * `input` as committed: at offset 1 of `/` unless the fields say otherwise, its time one second per offset after 2000-01-01, so that a
 * test reads the same on every run.
 */
export function committedEvent<Type extends string, Payload>(
  input: EventInput<Type, Payload>,
  fields: CommittedEventFields = {},
): StreamEvent<Type, Payload> {
  const { offset = 1, path = "/", createdAt = new Date(Date.UTC(2000, 0, 1) + offset * 1000).toISOString() } = fields;
  const { type, payload, metadata, idempotencyKey, source: written } = input;
  return {
    offset,
    type,
    ...(payload === undefined ? {} : { payload }),
    ...(metadata === undefined ? {} : { metadata }),
    createdAt,
    path,
    source: {
      origin: path,
      cause: { chain: "test", depth: 0 },
      ...(written?.processor === undefined ? {} : { processor: written.processor }),
      ...fields.source,
    },
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(fields.ephemeral === true || input.ephemeral === true ? { ephemeral: true } : {}),
  };
}
