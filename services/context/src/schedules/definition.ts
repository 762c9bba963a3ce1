/** What a firing appends, and as whom: read from the event that set the schedule. */
import { itx, newestFormat } from "iterate/events";
import { codedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import type { AppendEvent, OccurrenceLabel } from "../log/contract.js";
import type { StoredSource } from "../log/stored-event.js";
import type { StoredDefinition } from "./contract.js";

/** The part of a `schedule-set` that is appended. */
type ScheduledEvents = readonly { readonly type: string; readonly payload?: unknown; readonly metadata?: unknown }[];

/**
 * The events of a schedule. Numbers keep the spelling their writer gave them.
 *
 * @throws CodedError EVENT_UNREADABLE when the event is none that sets a schedule.
 */
export function scheduledEvents({ offset, formatVersion, payload }: StoredDefinition): AppendEvent[] {
  try {
    const definition = newestFormat(itx.scheduleSet, { offset, formatVersion, payload: parseExactly(payload ?? "") });
    return (definition as { readonly events: ScheduledEvents }).events.map((event) => ({
      type: event.type,
      payload: bytesOf(event.payload),
      metadata: bytesOf(event.metadata),
      idempotencyKey: null,
      expectedOffset: null,
      formatVersion: 0,
      processor: null,
      isEphemeral: false,
    }));
  } catch (cause) {
    throw codedError("EVENT_UNREADABLE", `the event at offset ${offset} sets no schedule`, { offset, cause: String(cause) });
  }
}

/**
 * Who a firing writes as: whoever set the schedule, with the same place in their chain. Never a person, whose presence some acts ask
 * for, and under the rules of code when code set it.
 */
export function firingWriter({ origin, cause, platform, by }: StoredSource, owner: string): Writer {
  const isCode = by !== "person" && by !== "service";
  return {
    kind: isCode ? "code" : "service",
    origin,
    cause,
    principal: null,
    isPlatform: platform === true,
    owner: isCode ? owner : null,
    lease: null,
  };
}

/** Provenance of the events of one occurrence. */
export function occurrenceLabel({ offset, source }: StoredDefinition, key: string, at: string): OccurrenceLabel {
  const { origin, principal, platform } = JSON.parse(source) as StoredSource;
  return {
    key,
    scheduledAtOffset: offset,
    at,
    definedBy: { origin, ...(principal === undefined ? {} : { principal }), ...(platform === true ? { platform } : {}) },
  };
}

/** JSON with raw numbers, as the runtime has it. */
interface ExactJson {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown;
  rawJSON(text: string): unknown;
}

/** Parses so that writing it again gives every number as it was spelled. */
function parseExactly(text: string): unknown {
  const exact = JSON as unknown as ExactJson;
  return exact.parse(text, (_, value, { source }) => (typeof value === "number" ? exact.rawJSON(source!) : value));
}

function bytesOf(value: unknown): Buffer | null {
  return value === undefined ? null : Buffer.from(JSON.stringify(value));
}
