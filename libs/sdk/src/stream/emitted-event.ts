/** The gate every write of a processor passes: declared type, checked payload, size, and the stamp that says what it was handling. */
import { codedError } from "../lib/coded-error.js";
import { exceedsUtf8, utf8Length } from "../lib/utf8.js";
import { checkPayload, type AnyProcessorContract } from "./contract.js";
import type { EventInput, ProcessorSource } from "./event.js";
import { maxBatchBytes, maxBatchEvents, maxEventBytes, maxIdempotencyKeyBytes } from "./limits.js";

/** Counts what one append, or all emits of one batch, hold together. */
export class WriteBudget {
  #events = 0;
  #bytes = 0;

  /** Throws BATCH_TOO_LARGE, counting nothing, when the events would go over a limit. */
  take(events: readonly StampedEvent[]): void {
    const count = this.#events + events.length;
    const bytes = events.reduce((sum, event) => sum + event.bytes, this.#bytes);
    if (count > maxBatchEvents)
      throw codedError("BATCH_TOO_LARGE", `${count} events in one batch; at most ${maxBatchEvents} are taken`, {
        events: count,
        maxBatchEvents,
      });
    if (bytes > maxBatchBytes)
      throw codedError("BATCH_TOO_LARGE", `${bytes} bytes of events in one batch; at most ${maxBatchBytes} are taken`, {
        bytes,
        maxBatchBytes,
      });
    this.#events = count;
    this.#bytes = bytes;
  }
}

export interface StampedEvent {
  readonly event: EventInput;
  /** Size of its payload and metadata as JSON. */
  readonly bytes: number;
}

/**
 * The event as it will be stored, detached from the writer's objects. Throws INVALID_INPUT for an undeclared type, a payload its
 * schema refuses, or a value that is not JSON; EVENT_TOO_LARGE beyond 8 MiB. Not retryable.
 */
export function stampEvent(contract: AnyProcessorContract, input: EventInput, processor: ProcessorSource): StampedEvent {
  const refuse = (problem: string): never => {
    throw codedError("INVALID_INPUT", `processor ${contract.slug}: ${problem}`, {
      slug: contract.slug,
      type: typeof input.type === "string" ? input.type : null,
    });
  };
  const name = JSON.stringify(input.type);
  if (!contract.emits.includes(input.type)) refuse(`the type ${name} is not among the contract's emits; declare it there`);

  const key = input.idempotencyKey;
  if (key !== undefined) {
    if (typeof key !== "string" || key === "" || key.includes("\0") || !key.isWellFormed())
      refuse(`the idempotency key of ${name} must be a non-empty string without NUL or lone surrogates`);
    if (exceedsUtf8(key, maxIdempotencyKeyBytes))
      refuse(`the idempotency key of ${name} is longer than ${maxIdempotencyKeyBytes} bytes`);
  }
  const offset = input.offset;
  if (offset !== undefined && !(Number.isSafeInteger(offset) && offset > 0))
    refuse(`the expected offset of ${name} must be a positive integer`);

  const checked = checkPayload(contract, input);
  if (checked.kind === "malformed") refuse(`the payload of ${name} does not fit its schema: ${checked.error.message}`);

  const payload = jsonText(input.payload, () => refuse(`the payload of ${name} is not JSON`));
  const metadata = jsonText(input.metadata, () => refuse(`the metadata of ${name} is not JSON`));
  const bytes = (payload === undefined ? 0 : utf8Length(payload)) + (metadata === undefined ? 0 : utf8Length(metadata));
  if (bytes > maxEventBytes) {
    throw codedError("EVENT_TOO_LARGE", `an event of type ${name} has ${bytes} bytes; at most ${maxEventBytes} are taken`, {
      bytes,
      maxEventBytes,
    });
  }

  const event: EventInput = {
    type: input.type,
    ...(payload === undefined ? {} : { payload: JSON.parse(payload) as unknown }),
    ...(metadata === undefined ? {} : { metadata: JSON.parse(metadata) as unknown }),
    ...(key === undefined ? {} : { idempotencyKey: key }),
    ...(offset === undefined ? {} : { offset }),
    source: { processor },
  };
  return { event, bytes };
}

function jsonText(value: unknown, refuse: () => never): string | undefined {
  if (value === undefined) return undefined;
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    refuse();
  }
  return text ?? refuse();
}
