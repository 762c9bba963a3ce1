/**
 * What project code may write, decided before anything of it is stored: not the platform's records, not the platform's keys, nothing
 * that reaches past the published surface. The log checks again what it can see; only the runner knows that a writer is code.
 */
import { eventCatalog, isPlatformType, itx, testTypePrefix } from "iterate/events";
import { spellsBuiltins, toMatch, toTarget, type Expression } from "iterate/expression";
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
  if (eventCatalog.get(type)?.control === true) assertWithinWall(type, payload);
}

/** The tables that decide what names mean lead past the rules of their contexts only where somebody else than code wrote so. */
function assertWithinWall(type: string, payload: unknown): void {
  const { match, target, ifTarget, events } = (payload ?? {}) as Readonly<Record<string, unknown>>;
  if (type === itx.rewriteRuleConfigured.type && (ifTarget !== undefined || isConfig(match)))
    throw codedError("FORBIDDEN", "code may not take a rule away by its target, nor write the rule itx.config", { type });
  if (namesBuiltins(target))
    throw codedError("FORBIDDEN", "code may not name what is below itx.builtins; name what its context answers to itx", { type });
  if (type !== itx.scheduleSet.type || !Array.isArray(events)) return;
  for (const event of events as readonly ({ readonly type?: unknown; readonly payload?: unknown } | null)[])
    if (typeof event?.type === "string" && eventCatalog.get(event.type)?.control === true)
      assertWithinWall(event.type, event.payload);
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

/** What is no expression is refused by the log, for that. */
function namesBuiltins(target: unknown): boolean {
  const expression = expressionOf(() => toTarget(target));
  return expression !== null && spellsBuiltins(expression);
}

function isConfig(match: unknown): boolean {
  const expression = expressionOf(() => toMatch(match));
  return expression !== null && itx.isConfigMatch(expression);
}

function expressionOf(read: () => Expression): Expression | null {
  try {
    return read();
  } catch {
    return null;
  }
}
