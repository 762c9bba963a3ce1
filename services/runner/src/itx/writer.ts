/**
 * Appends and reads of one invocation. Every stored event written while handling a delivery has a key, its author's or one made from
 * what is being handled, so a repeated delivery repeats no write but those of ephemeral events; events come back as the log stored them.
 */
import type { EventInput, EventsPage, ReadEventsArgs, StreamEvent } from "iterate/api";
import { toProtoEventInput, toStreamEvent } from "@iterate-platform/service/stream-event";
import { codedError } from "iterate/lib";
import type { ExecutionScope } from "../delivery/batch.js";
import type { AppendReceipt, ContextLog } from "../log/contract.js";
import { appendKey } from "./append-key.js";

export interface WriterParts {
  readonly log: ContextLog;
  readonly scope: ExecutionScope;
  /** The delivery in hand; null when there is none that could be repeated. */
  readonly delivery: DeliveryInHand | null;
}

export interface DeliveryInHand {
  readonly subscription: string;
  /** Offset after which its batch began. */
  readonly after: number;
}

export class InvocationWriter {
  readonly #parts: WriterParts;

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  /** Commits all events or none at the context of `path`. Throws as the log does. Repeating a keyed one changes nothing. */
  async append(path: string, events: readonly EventInput[]): Promise<StreamEvent[]> {
    if (events.length === 0) return [];
    const keyed = events.map((event) => this.#keyed(path, event));
    const address = { owner: this.#parts.scope.claims.owner, path };
    const receipts = await this.#parts.log.append(address, keyed.map(toProtoEventInput), await this.#scope());
    return await Promise.all(keyed.map((event, index) => this.#stored(path, event, receipts[index])));
  }

  async readEvents(
    path: string,
    { afterOffset = 0, limit = 500, types = [], includeEphemeral = false }: ReadEventsArgs,
  ): Promise<EventsPage> {
    const page = await this.#parts.log.read(
      { owner: this.#parts.scope.claims.owner, path },
      { after: afterOffset, limit, types, includeEphemeral },
      await this.#scope(),
    );
    return {
      events: page.events.map((event) => toStreamEvent(event, path)),
      scannedThroughOffset: page.scannedThrough,
      atHead: page.atHead,
      ...(includeEphemeral ? { ephemeralsIncluded: page.ephemeralsIncluded ?? false } : {}),
    };
  }

  #keyed(path: string, event: EventInput): EventInput {
    const { delivery, scope } = this.#parts;
    if (event.idempotencyKey !== undefined || event.ephemeral === true || delivery === null) return event;
    const offset = event.source?.processor?.whileProcessing?.offset ?? delivery.after;
    return {
      ...event,
      idempotencyKey: appendKey({ subscription: delivery.subscription, path: scope.claims.context, offset }, path, event),
    };
  }

  async #scope() {
    const { scope } = this.#parts;
    return { execution: await scope.execution(), traceparent: scope.traceparent, signal: scope.signal };
  }

  /** A fresh event is as the log stamps it from these claims; one that was there already may have been written by someone else. */
  async #stored(path: string, event: EventInput, receipt: AppendReceipt | undefined): Promise<StreamEvent> {
    if (receipt === undefined) throw codedError("INTERNAL", "the log answered fewer receipts than events");
    if (receipt.existing) {
      const { events } = await this.readEvents(path, { afterOffset: receipt.offset - 1, limit: 1 });
      if (events[0]?.offset === receipt.offset) return events[0];
      throw codedError("EVENT_UNREADABLE", `the event at offset ${receipt.offset} is no longer kept`, { offset: receipt.offset });
    }
    const { context, cause, principal, code } = this.#parts.scope.claims;
    const { type, payload, metadata, idempotencyKey, source, ephemeral } = event;
    return {
      offset: receipt.offset,
      type,
      ...(payload === undefined ? {} : { payload }),
      ...(metadata === undefined ? {} : { metadata }),
      createdAt: new Date(Number(receipt.createdAtUs / 1_000n)).toISOString(),
      path,
      source: {
        origin: context,
        cause,
        ...(principal === undefined ? {} : { principal }),
        ...(source?.processor === undefined ? {} : { processor: source.processor }),
        ...(code.startsWith("builtin:") ? { platform: true } : {}),
      },
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      ...(ephemeral === true ? { ephemeral } : {}),
    };
  }
}
