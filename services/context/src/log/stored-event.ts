/**
 * From a stored event to the event that callers see. Bodies stay the text their writer sent; only the stamped source is parsed,
 * and events that follow each other mostly share it.
 */
import type { Event, Source } from "@iterate-platform/proto/iterate/type/v1/event";
import { CodedError } from "iterate/lib";
import type { Writer } from "../caller/contract.js";
import type { OccurrenceLabel } from "./contract.js";
import type { EventBodies, StoredEvent } from "./log-store.js";

/** The stored JSON of a source. */
export interface StoredSource {
  readonly origin: string;
  readonly cause: { readonly chain: string; readonly depth: number };
  readonly principal?: string;
  readonly processor?: {
    readonly slug: string;
    readonly version: string;
    readonly whileProcessing?: { readonly offset: number; readonly type: string };
  };
  readonly platform?: boolean;
  /** On what a schedule appended. */
  readonly schedule?: OccurrenceLabel;
  /** Kind of the writer, on an event that sets a schedule. */
  readonly by?: Writer["kind"];
}

/** Turns the stored events of one page into what callers see; remembers the last source, so make one for each page or stream. */
export class EventDecoder {
  readonly #nameOf: (type: number) => string;
  #sourceText: string | undefined;
  #source: Source | undefined;

  constructor(nameOf: (type: number) => string) {
    this.#nameOf = nameOf;
  }

  /** @throws CodedError EVENT_UNREADABLE{offset} when the row is not one the platform wrote; read after it. */
  decode(stored: StoredEvent, bodies: EventBodies | undefined): Event {
    const { offset, source, traceparent, idempotencyKey, createdAtUs, formatVersion } = stored;
    const { payload, metadata } = bodies ?? stored;
    return {
      offset: BigInt(offset),
      type: this.#nameOf(stored.type),
      payload: payload === null ? undefined : Buffer.from(payload),
      metadata: metadata === null ? undefined : Buffer.from(metadata),
      idempotencyKey: idempotencyKey ?? "",
      createdAtUs: BigInt(createdAtUs),
      source: this.#sourceOf(source, offset),
      traceparent: traceparent ?? "",
      formatVersion,
      ephemeral: false,
    };
  }

  #sourceOf(text: string, offset: number): Source | undefined {
    if (text !== this.#sourceText) {
      try {
        this.#source = decodeSource(text);
      } catch (cause) {
        throw unreadable(offset, cause);
      }
      this.#sourceText = text;
    }
    return this.#source;
  }
}

/** The error of an event whose row is not one that the platform wrote. */
export function unreadable(offset: number, cause: unknown): CodedError {
  return new CodedError("EVENT_UNREADABLE", `the event at offset ${offset} has a source that cannot be read; read after it`, {
    data: { offset },
    cause,
  });
}

/** The message of a stored source. Throws when `text` is not one. */
export function decodeSource(text: string): Source {
  const { origin, cause, principal, processor, platform, schedule } = JSON.parse(text) as StoredSource;
  return {
    origin,
    cause: { chain: cause.chain, depth: cause.depth },
    principal,
    processor:
      processor === undefined
        ? undefined
        : {
            slug: processor.slug,
            version: processor.version,
            whileProcessingOffset: BigInt(processor.whileProcessing?.offset ?? 0),
            whileProcessingType: processor.whileProcessing?.type ?? "",
          },
    platform: platform ?? false,
    schedule: schedule === undefined ? undefined : scheduleOf(schedule),
  };
}

function scheduleOf({ key, scheduledAtOffset, at, definedBy }: OccurrenceLabel): Source["schedule"] {
  const { origin, principal, platform } = definedBy;
  return { key, scheduledAtOffset: BigInt(scheduledAtOffset), at, definedBy: { origin, principal, platform: platform ?? false } };
}
