/**
 * Pages whose events are bytes of a message from the moment they come from the store. An event costs a few copies then, where objects
 * and strings of its every field cost ten times as much; what cannot be written at once (a type that was never seen, a body that comes
 * apart) is kept aside and takes the way of all other pages.
 */
import { StreamEventsResponse } from "@iterate-platform/proto/iterate/context/v1/context";
import { Event } from "@iterate-platform/proto/iterate/type/v1/event";
import { Bytes, varintSize } from "./bytes.js";
import type { EventBytes, StoredEvent } from "./log-store.js";
import type { Page, PageBounds } from "./page.js";
import { pageMemory } from "./page-memory.js";
import { SourceBytes } from "./source-bytes.js";
import { unreadable } from "./stored-event.js";

/** Field `events` of every message that answers a page. */
const tagEvents = 0x0a;
/** Fields of an event beside its type and source, which come with their tags. */
const [tagOffset, tagPayload, tagMetadata, tagKey, tagCreatedAt, tagTraceparent, tagFormat] = [
  0x08, 0x1a, 0x22, 0x2a, 0x30, 0x42, 0x48,
];
/** The tag and the length of an event. */
const maxFrame = 6;

/** A page of at least one event, all stored. */
export class EncodedPage implements Page {
  readonly count: number;
  readonly bytes: number;
  readonly scannedAfter: number;
  readonly scannedThrough: number;
  readonly isAtHead: boolean;
  readonly #encoded: Bytes;
  #events: readonly Event[] | undefined;
  #isReleased = false;

  constructor(
    encoded: Bytes,
    { count, bytes, scannedAfter, scannedThrough, isAtHead }: Omit<Page, "events"> & { readonly count: number },
  ) {
    this.#encoded = encoded;
    this.count = count;
    this.bytes = bytes;
    this.scannedAfter = scannedAfter;
    this.scannedThrough = scannedThrough;
    this.isAtHead = isAtHead;
  }

  /** The events as objects, decoded at the first look: whoever wants them all should not have asked for bytes. */
  get events(): readonly Event[] {
    return (this.#events ??= StreamEventsResponse.decode(this.#encoded.written()).events);
  }

  /** Gives the page up: its message was sent, and nobody looks at it any more. */
  release(): void {
    if (!this.#isReleased) pageMemory.give(this.#encoded.memory);
    this.#isReleased = true;
  }

  /** The message whose field 1 are the events; `rest` are the bytes of its other fields. Once. */
  message(rest: Uint8Array): Buffer {
    this.#encoded.reserve(rest.length);
    this.#encoded.copy(Buffer.from(rest.buffer, rest.byteOffset, rest.byteLength), 0, rest.length);
    return this.#encoded.written();
  }
}

/** An event that is written when its page is whole. */
interface Aside {
  readonly stored: StoredEvent;
  /** Where it belongs among the bytes. */
  readonly at: number;
}

export interface PageEncoderParts {
  readonly after: number;
  readonly bounds: PageBounds;
  /** Field `type` of events of a type; `undefined` when its name is not known here. */
  readonly typeField: (type: number) => Buffer | undefined;
  /** The events of `stored`, by the way of objects. */
  readonly decode: (stored: readonly StoredEvent[]) => Promise<readonly Event[]>;
}

/** Makes one page of the events that `take` is given; what its bounds leave out says that the head was not reached. */
export class PageEncoder {
  readonly #parts: PageEncoderParts;
  readonly #sources = new SourceBytes();
  readonly #asides: Aside[] = [];
  #encoded = new Bytes(pageMemory.take());
  #count = 0;
  #bytes = 0;
  #lastOffset: number;
  #lastType = -1;
  #lastTypeField: Buffer | undefined;
  #isCut = false;
  #failure: Error | undefined;

  constructor(parts: PageEncoderParts) {
    this.#parts = parts;
    this.#lastOffset = parts.after;
  }

  readonly take = (event: EventBytes): void => {
    if (this.#isCut) return;
    const { bounds } = this.#parts;
    const { bodyBytes } = event;
    if (this.#count === bounds.limit || (this.#count > 0 && this.#bytes + bodyBytes > bounds.maxBytes)) {
      this.#isCut = true;
      return;
    }
    const type = this.#typeField(event.type);
    if (type === undefined || event.isWithoutBodies || event.formatVersion < 0) {
      this.#asides.push({ stored: event.toStored(), at: this.#encoded.length });
    } else {
      try {
        this.#write(event, type, this.#sources.field(event.memory, event.source, event.sourceEnd));
      } catch (cause) {
        // Thrown when the page is asked for, unless an event before it cannot be read either.
        this.#failure = unreadable(event.offset, cause);
        this.#isCut = true;
        return;
      }
    }
    this.#count += 1;
    this.#bytes += bodyBytes;
    this.#lastOffset = event.offset;
  };

  /**
   * The page; `undefined` when there was no event.
   *
   * @throws CodedError EVENT_UNREADABLE{offset}; what `decode` throws.
   */
  async page(): Promise<EncodedPage | undefined> {
    if (this.#asides.length > 0) this.#encoded = await this.#withAsides();
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#count === 0) {
      pageMemory.give(this.#encoded.memory);
      return undefined;
    }
    return new EncodedPage(this.#encoded, {
      count: this.#count,
      bytes: this.#bytes,
      scannedAfter: this.#parts.after,
      scannedThrough: this.#lastOffset,
      isAtHead: !this.#isCut,
    });
  }

  #typeField(type: number): Buffer | undefined {
    if (type !== this.#lastType) {
      this.#lastTypeField = this.#parts.typeField(type);
      this.#lastType = type;
    }
    return this.#lastTypeField;
  }

  #write(event: EventBytes, type: Buffer, source: Buffer): void {
    const { memory, offset, createdAtUs, formatVersion } = event;
    const { payload, payloadEnd, metadata, metadataEnd, key, keyEnd, traceparent, traceparentEnd } = event;
    const size =
      1 +
      varintSize(offset) +
      type.length +
      (payloadEnd < 0 ? 0 : sizeOf(payloadEnd - payload)) +
      (metadataEnd < 0 ? 0 : sizeOf(metadataEnd - metadata)) +
      (keyEnd <= key ? 0 : sizeOf(keyEnd - key)) +
      1 +
      varintSize(createdAtUs) +
      source.length +
      (traceparentEnd <= traceparent ? 0 : sizeOf(traceparentEnd - traceparent)) +
      (formatVersion === 0 ? 0 : 1 + varintSize(formatVersion));
    const out = this.#encoded;
    out.reserve(size + maxFrame);
    out.byte(tagEvents);
    out.varint(size);
    out.number(tagOffset, offset);
    out.copy(type, 0, type.length);
    if (payloadEnd >= 0) out.field(tagPayload, memory, payload, payloadEnd);
    if (metadataEnd >= 0) out.field(tagMetadata, memory, metadata, metadataEnd);
    if (keyEnd > key) out.field(tagKey, memory, key, keyEnd);
    out.number(tagCreatedAt, createdAtUs);
    out.copy(source, 0, source.length);
    if (traceparentEnd > traceparent) out.field(tagTraceparent, memory, traceparent, traceparentEnd);
    if (formatVersion !== 0) out.number(tagFormat, formatVersion);
  }

  async #withAsides(): Promise<Bytes> {
    const events = await this.#parts.decode(this.#asides.map(({ stored }) => stored));
    const messages = events.map((event) => Buffer.from(Event.encode(event).finish()));
    const inline = this.#encoded.written();
    const whole = new Bytes(messages.reduce((sum, message) => sum + message.length + maxFrame, inline.length));
    let from = 0;
    this.#asides.forEach(({ at }, index) => {
      whole.copy(inline, from, at);
      whole.field(tagEvents, messages[index]!, 0, messages[index]!.length);
      from = at;
    });
    whole.copy(inline, from, inline.length);
    pageMemory.give(this.#encoded.memory);
    return whole;
  }
}

/** Of a field that holds `length` bytes. */
function sizeOf(length: number): number {
  return 1 + varintSize(length) + length;
}
