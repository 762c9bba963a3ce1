/** One context's log in memory, with the append and read contract of the platform. */
import type { EventsPage, ReadEventsArgs } from "../../api/context.js";
import { codedError } from "../../lib/coded-error.js";
import type { ProcessorStream } from "../engine-ports.js";
import type { EventInput, StreamEvent } from "../event.js";
import { committedEvent } from "./committed-event.js";

export interface MemoryStream extends ProcessorStream {
  /** Everything stored, in offset order: ephemeral events are answered and take an offset, but are not here. */
  readonly events: readonly StreamEvent[];
  readonly readEvents: (args?: ReadEventsArgs) => Promise<EventsPage>;
}

/** An empty log, or one that holds `inputs`. */
export function memoryStream(inputs: readonly EventInput[] = [], { path = "/" }: { readonly path?: string } = {}): MemoryStream {
  const events: StreamEvent[] = [];
  let used = 0;

  const append = (batch: readonly EventInput[]): StreamEvent[] => {
    const fresh: StreamEvent[] = [];
    const answers = batch.map((input) => {
      if (input.ephemeral === true && input.idempotencyKey !== undefined)
        throw codedError("INVALID_INPUT", "an ephemeral event has an idempotency key; nothing is stored that could answer for it");
      const existing = [...events, ...fresh].find(
        (event) => input.idempotencyKey !== undefined && event.idempotencyKey === input.idempotencyKey,
      );
      if (existing !== undefined) {
        if (body(existing) !== body(input)) {
          throw codedError("IDEMPOTENCY_CONFLICT", `the key ${JSON.stringify(input.idempotencyKey)} names another event`, {
            existingOffset: existing.offset,
          });
        }
        return existing;
      }
      const offset = used + fresh.length + 1;
      if (input.offset !== undefined && input.offset !== offset) {
        throw codedError("OFFSET_CONFLICT", `expected offset ${input.offset}; the next is ${offset}`, {
          expected: input.offset,
          actual: offset,
        });
      }
      const event = committedEvent(JSON.parse(JSON.stringify(input)) as EventInput, { offset, path });
      fresh.push(event);
      return event;
    });
    used += fresh.length;
    events.push(...fresh.filter((event) => event.ephemeral !== true));
    return answers;
  };

  append(inputs);
  return {
    events,
    append: async (batch) => append(batch),
    readEvents: async ({ afterOffset = 0, limit = 500, types } = {}) => {
      const matching = events.filter((event) => event.offset > afterOffset && (types === undefined || types.includes(event.type)));
      const page = matching.slice(0, limit);
      const atHead = page.length === matching.length;
      return {
        events: page,
        scannedThroughOffset: atHead ? Math.max(afterOffset, events.at(-1)?.offset ?? 0) : (page.at(-1)?.offset ?? afterOffset),
        atHead,
      };
    },
  };
}

/** What makes two events with one key the same: type, payload and metadata, whatever the order of keys. */
function body({ type, payload, metadata }: EventInput | StreamEvent): string {
  return JSON.stringify([type, payload ?? null, metadata ?? null], (_key, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
}
