/** Events between the wire and JSON: what code and clients hold is `StreamEvent`, what services pass on is the protobuf message. */
import type {
  EventInput as ProtoEventInput,
  Event as ProtoEvent,
  Occurrence,
  ProcessorLabel,
} from "@iterate-platform/proto/iterate/type/v1/event";
import type { EventInput, ProcessorSource, ScheduleSource, StreamEvent } from "iterate/api";
import { eventCatalog, newestFormat } from "iterate/events";
import { codedError } from "iterate/lib";

/** Throws INVALID_INPUT when a value is not JSON (a function, a cycle, `undefined` at the top) or a field has another type. */
export function toProtoEventInput(input: EventInput): ProtoEventInput {
  if (typeof input.type !== "string")
    throw codedError("INVALID_INPUT", `an event's type is ${typeof input.type}, not a string`, { field: "type" });
  if (input.idempotencyKey !== undefined && typeof input.idempotencyKey !== "string") {
    throw codedError("INVALID_INPUT", `an event's idempotencyKey is ${typeof input.idempotencyKey}, not a string`, {
      field: "idempotencyKey",
    });
  }
  return {
    type: input.type,
    payload: jsonBytes("payload", input.payload),
    metadata: jsonBytes("metadata", input.metadata),
    idempotencyKey: input.idempotencyKey ?? "",
    expectedOffset: input.offset === undefined ? undefined : offsetOf(input.offset),
    processor: input.source?.processor === undefined ? undefined : labelOf(input.source.processor),
    ephemeral: input.ephemeral === true,
    formatVersion: 0,
  };
}

/**
 * The JSON form of a committed event, its payload in the newest format of its type. Throws EVENT_UNREADABLE when its stored text is not
 * JSON, UPGRADE_REQUIRED (retryable) when its format is newer than this release knows.
 */
export function toStreamEvent(event: ProtoEvent, path: string, catalog = eventCatalog): StreamEvent {
  const { source } = event;
  const processor = source?.processor;
  return {
    offset: Number(event.offset),
    type: event.type,
    ...(event.payload === undefined ? {} : { payload: payloadOf(event, event.payload, catalog) }),
    ...(event.metadata === undefined ? {} : { metadata: parsed(event, event.metadata) }),
    createdAt: new Date(Number(event.createdAtUs / 1000n)).toISOString(),
    path,
    source: {
      origin: source?.origin ?? path,
      cause: { chain: source?.cause?.chain ?? "", depth: source?.cause?.depth ?? 0 },
      ...(source?.principal === undefined ? {} : { principal: source.principal }),
      ...(processor === undefined ? {} : { processor: processorOf(processor) }),
      ...(source?.platform === true ? { platform: true } : {}),
      ...(source?.schedule === undefined ? {} : { schedule: scheduleOf(source.schedule) }),
    },
    ...(event.idempotencyKey === "" ? {} : { idempotencyKey: event.idempotencyKey }),
    ...(event.ephemeral ? { ephemeral: true } : {}),
  };
}

function jsonBytes(field: string, value: unknown): Buffer | undefined {
  if (value === undefined) return undefined;
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw codedError("INVALID_INPUT", `an event's ${field} is not JSON: ${error instanceof Error ? error.message : "unknown"}`, {
      field,
    });
  }
  if (text === undefined) throw codedError("INVALID_INPUT", `an event's ${field} is ${typeof value}, not JSON`, { field });
  return Buffer.from(text);
}

function offsetOf(offset: number): bigint {
  if (!Number.isSafeInteger(offset) || offset < 1)
    throw codedError("INVALID_INPUT", `offset ${offset} is not a whole number from 1`, { field: "offset" });
  return BigInt(offset);
}

function labelOf(processor: ProcessorSource): ProcessorLabel {
  return {
    slug: processor.slug,
    version: processor.version,
    whileProcessingOffset: BigInt(processor.whileProcessing?.offset ?? 0),
    whileProcessingType: processor.whileProcessing?.type ?? "",
  };
}

function processorOf(label: ProcessorLabel): ProcessorSource {
  const offset = Number(label.whileProcessingOffset);
  return {
    slug: label.slug,
    version: label.version,
    ...(offset === 0 ? {} : { whileProcessing: { offset, type: label.whileProcessingType } }),
  };
}

function scheduleOf({ key, scheduledAtOffset, at, definedBy }: Occurrence): ScheduleSource {
  const { origin = "", principal, platform } = definedBy ?? {};
  return {
    key,
    scheduledAtOffset: Number(scheduledAtOffset),
    at,
    definedBy: { origin, ...(principal === undefined ? {} : { principal }), ...(platform === true ? { platform } : {}) },
  };
}

function payloadOf(event: ProtoEvent, bytes: Uint8Array, catalog: typeof eventCatalog): unknown {
  const payload = parsed(event, bytes);
  const declaration = catalog.get(event.type);
  if (declaration === undefined) return payload;
  return newestFormat(declaration, { offset: Number(event.offset), formatVersion: event.formatVersion, payload });
}

function parsed(event: ProtoEvent, bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8")) as unknown;
  } catch {
    throw codedError("EVENT_UNREADABLE", `the event at offset ${event.offset} is not JSON; read after it`, {
      offset: Number(event.offset),
    });
  }
}
