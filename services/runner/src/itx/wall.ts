/**
 * What project code may write, decided before anything of it is stored: not the platform's records, not the platform's keys, nothing
 * that reaches past the published surface. The log checks again what it can see; only the runner knows that a writer is code.
 */
import { eventCatalog, isPlatformType, itx, testTypePrefix } from "iterate/events";
import { codedError } from "iterate/lib";
import { maxBatchBytes, maxBatchEvents, maxEventBytes, type EventInput } from "iterate/stream/processor";
import { bodyBytes } from "./arguments.js";

const reservedKey = /^(?:itx|project|repo|workspace|secret)[/@:]/;

/** @throws FORBIDDEN naming what code may not write, INVALID_INPUT for a type that the platform has not. Not retryable. */
export function assertCodeMayWrite({ type, payload, idempotencyKey }: EventInput): void {
  if (isPlatformType(type) && !eventCatalog.has(type) && !type.startsWith(testTypePrefix))
    throw codedError(
      "INVALID_INPUT",
      `${JSON.stringify(type)} is no event type of the platform; name your own outside of its prefix`,
      {
        type,
      },
    );
  if (eventCatalog.get(type)?.writer === "platform") throw codedError("FORBIDDEN", `only the platform appends ${type}`, { type });
  const reserved = idempotencyKey === undefined ? null : reservedKey.exec(idempotencyKey);
  if (reserved !== null)
    throw codedError("FORBIDDEN", `idempotency keys that begin with ${JSON.stringify(reserved[0])} are the platform's own`, {
      key: idempotencyKey,
    });
  if (type === itx.subscriptionConfigured.type && namesBuiltins(payload)) {
    throw codedError("FORBIDDEN", "code may not subscribe what is below itx.builtins; name what the project publishes", { type });
  }
}

/**
 * Checks what a batch of project code emits, before its checkpoint is kept.
 * @throws FORBIDDEN, INVALID_INPUT, EVENT_TOO_LARGE, BATCH_TOO_LARGE.
 */
export function assertEmits(events: readonly EventInput[]): void {
  if (events.length > maxBatchEvents)
    throw codedError("BATCH_TOO_LARGE", `${events.length} emitted events; at most ${maxBatchEvents} are taken`, {
      events: events.length,
      maxBatchEvents,
    });
  let total = 0;
  for (const event of events) {
    if (event.offset !== undefined)
      throw codedError("INVALID_INPUT", `an emitted ${JSON.stringify(event.type)} cannot expect an offset: it is appended later`);
    assertCodeMayWrite(event);
    const bytes = bodyBytes(event);
    if (bytes > maxEventBytes)
      throw codedError("EVENT_TOO_LARGE", `an emitted event has ${bytes} bytes; at most ${maxEventBytes} are taken`, {
        bytes,
        maxEventBytes,
      });
    total += bytes;
  }
  if (total > maxBatchBytes)
    throw codedError("BATCH_TOO_LARGE", `${total} bytes of emitted events; at most ${maxBatchBytes} are taken`, {
      bytes: total,
      maxBatchBytes,
    });
}

function namesBuiltins(payload: unknown): boolean {
  const target: unknown = typeof payload === "object" && payload !== null ? (payload as { target?: unknown }).target : undefined;
  if (!Array.isArray(target)) return false;
  return target.some((step: unknown) => step === "builtins" || (Array.isArray(step) && step[0] === "builtins"));
}
